//! Suggests the name that a misspelt name was probably meant to be.
//!
//! The candidates are tables of the program, whose names are short. A name longer than `NAME_BYTES_MAX`
//! is not compared at all, so the cost does not depend on what a client sends.

/// The longest name that is compared, in bytes: no option, function or stage has a longer one.
const NAME_BYTES_MAX: usize = 96;

/// The candidate with the smallest edit distance (insertions, deletions, replacements and swaps of
/// characters) from `name`, ignoring case, if there is at most one edit for every three characters (and
/// one for shorter names).
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let lower = name.to_lowercase();
    let scored = candidates.into_iter().map(|c| (strsim::osa_distance(&lower, &c.to_lowercase()), c));
    let (score, best) = scored.min()?;
    (score <= (lower.chars().count() / 3).max(1)).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_are_recognised_and_unrelated_ones_are_not() {
        let names = ["flush.max_age", "flush.max_bytes", "store", "sum"];
        for (name, found) in [
            ("flush.max_ag", Some("flush.max_age")),
            ("sotre", Some("store")),
            ("STORE", Some("store")),
            ("sun", Some("sum")),
            ("foo", None),
            ("replication_factor", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, names), found, "{name}");
        }
        assert_eq!(nearest(&"store".repeat(1_000_000), names), None);
    }
}
