//! What a misspelt name was probably meant to be.
//!
//! Names are short and lists of candidates are tables of the program; a longer name than any in a table is
//! not compared at all, so the cost does not depend on what a client sends.

/// Longest name that is compared, in bytes: no option, function or stage has a longer one.
const NAME_BYTES_MAX: usize = 96;

/// The candidate that differs least from `name`, if any is close enough to be a slip: letters left out,
/// added, replaced or swapped, one for every three.
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
    fn slips_are_recognised_and_strangers_are_not() {
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
