//! Why the configuration cannot be used, and the search for what was probably meant.

/// A configuration that cannot be used. The message says where and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration file '{path}': {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// The file is not TOML.
    #[error("{place}: not valid TOML: {reason}")]
    Syntax {
        /// File and line.
        place: String,
        /// What the parser says.
        reason: String,
    },
    /// Nothing has this name.
    #[error("{place}: unknown key '{name}'{}", hint(.nearest))]
    Unknown {
        /// Where it stands.
        place: String,
        /// The name.
        name: String,
        /// The closest known name.
        nearest: Option<String>,
    },
    /// The value is not what the option takes.
    #[error("{place}: {name}: {reason}")]
    Value {
        /// Where it stands.
        place: String,
        /// The option.
        name: String,
        /// What is accepted.
        reason: String,
    },
}

fn hint(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; did you mean '{name}'?"),
        None => "; docs/reference/options.md lists all options".to_owned(),
    }
}

/// The candidate that differs least from `name`, if any is close enough to be a slip.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let scored = candidates.into_iter().map(|c| (distance(name, c), c));
    let (score, best) = scored.min()?;
    (score <= (name.len() / 3).max(2)).then(|| best.to_owned())
}

/// Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        assert_eq!(distance("kitten", "sitting"), 3);
        let names = ["flush.max_age", "flush.max_bytes", "store"];
        assert_eq!(nearest("flush.max_ag", names), Some("flush.max_age".to_owned()));
        assert_eq!(nearest("sotre", names), Some("store".to_owned()));
        assert_eq!(nearest("replication_factor", names), None);
    }
}
