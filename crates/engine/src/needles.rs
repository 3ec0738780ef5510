//! Converts needles to filter keys, which rule out pages.

use sandur_format::needle::{SegmentView, needle_keys};
use sandur_query::Needles;

/// The keys of every testable needle. Every needle of the outer list must pass, each by one of its
/// alternatives. An alternative passes when the filter may hold all of its keys.
pub struct NeedleKeys(Vec<Vec<Vec<u32>>>);

impl NeedleKeys {
    /// Computes the keys of the needles. A needle with an alternative that is too short to test rules
    /// nothing out and is dropped.
    pub fn new(needles: &Needles) -> Self {
        let keys_of = |alternatives: &Vec<sandur_query::Needle>| -> Vec<Vec<u32>> {
            alternatives.iter().map(|n| needle_keys(&n.literal, n.ignore_ascii_case)).collect()
        };
        let all = needles.0.iter().map(keys_of);
        Self(all.filter(|alternatives| !alternatives.iter().any(Vec::is_empty)).collect())
    }

    /// Whether no page can be ruled out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a page may match all needles.
    pub fn may_be_in(&self, view: &SegmentView, page: u32) -> bool {
        self.0.iter().all(|alternatives| alternatives.iter().any(|keys| view.may_contain(page, keys)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_query::Needle;

    #[test]
    fn short_alternatives_rule_nothing_out() {
        let needle = |text: &str| Needle { literal: text.as_bytes().to_vec(), ignore_ascii_case: false };
        let long = needle("0b8f6a52-1c5e-4d0a-9a40-7f1f2c3d4e5f");
        assert!(!NeedleKeys::new(&Needles(vec![vec![long.clone()]])).is_empty());
        assert!(NeedleKeys::new(&Needles(vec![vec![long, needle("a")]])).is_empty());
        assert!(NeedleKeys::new(&Needles::default()).is_empty());
    }
}
