//! Converts needles to filter keys, which rule out pages.

use sandur_format::needle::{PageSet, is_id_key, is_word_key, needle_keys};
use sandur_query::Needles;

/// The number of keys whose filters are read first: an absent id passes one page in 200,000.
const FEW_KEYS: usize = 8;

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

    /// All keys, each once.
    pub fn keys(&self) -> Vec<u32> {
        let mut keys: Vec<u32> = self.0.iter().flatten().flatten().copied().collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The same needles with at most [`FEW_KEYS`] keys of each alternative, which rule out fewer pages.
    /// `None` if no alternative has more.
    pub fn with_few_keys(&self) -> Option<Self> {
        let is_long = |keys: &Vec<u32>| keys.len() > FEW_KEYS;
        if !self.0.iter().flatten().any(is_long) {
            return None;
        }
        let few = |keys: &Vec<u32>| {
            let mut keys = keys.clone();
            // Those that the fewest pages have.
            keys.sort_by_key(|key| (!is_id_key(*key), is_word_key(*key)));
            keys.truncate(FEW_KEYS);
            keys
        };
        let few_of = |alternatives: &Vec<Vec<u32>>| alternatives.iter().map(few).collect();
        Some(Self(self.0.iter().map(few_of).collect()))
    }

    /// The pages of a segment that may match all needles, by their positions in it. `pages_with` returns
    /// those that may have a key.
    pub fn pages_in(&self, mut pages_with: impl FnMut(u32) -> PageSet) -> PageSet {
        let mut pages = PageSet::ALL;
        for alternatives in &self.0 {
            let mut of_needle = PageSet::default();
            for keys in alternatives {
                let mut of_keys = PageSet::ALL;
                for key in keys {
                    of_keys &= pages_with(*key);
                    if of_keys.is_empty() {
                        break;
                    }
                }
                of_needle |= of_keys;
            }
            pages &= of_needle;
        }
        pages
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

    #[test]
    fn few_keys_of_long_needles_are_asked_first() {
        let needle = |text: &str| Needle { literal: text.as_bytes().to_vec(), ignore_ascii_case: false };
        let long = needle("quorum lost while committing the ledger segment of a peer that is not reachable");
        let id = needle("0b8f6a52-1c5e-4d0a-9a40-7f1f2c3d4e5f");
        let keys = NeedleKeys::new(&Needles(vec![vec![id.clone(), long], vec![id.clone()]]));
        let few = keys.with_few_keys().unwrap();
        let counts = |keys: &NeedleKeys| -> Vec<Vec<usize>> {
            keys.0.iter().map(|alternatives| alternatives.iter().map(Vec::len).collect()).collect()
        };
        let (all, some) = (counts(&keys), counts(&few));
        assert!(all[0][1] > FEW_KEYS && all[1][0] <= FEW_KEYS);
        assert_eq!(some, [vec![all[0][0], FEW_KEYS], vec![all[1][0]]]);
        assert_eq!(few.keys().len(), all[0][0] + FEW_KEYS, "the keys of the id count once");
        assert!(NeedleKeys::new(&Needles(vec![vec![id]])).with_few_keys().is_none());
    }
}
