//! The labels of a series of a batch, which are at hand, or are made of its name when somebody looks.
//!
//! Senders of Graphite's protocols name a series by its path in each point. Where its id is known, nobody
//! looks at the labels of most: they are kept nowhere and made of the name for who does.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::graphite_name::GraphiteName;
use crate::labels::Labels;

/// Bytes that a name takes beside its letters.
const NAME_BYTES: u64 = 16;

/// Labels of a series. It is read as [`Labels`].
#[derive(Clone, Debug)]
pub struct SeriesLabels {
    ready: OnceLock<Arc<Labels>>,
    /// The name as it was sent; empty where the labels were at hand.
    name: Box<str>,
    count: u32,
}

impl SeriesLabels {
    /// Those of a name of Graphite's, which has so many: it must be one that has labels.
    pub fn of_name(name: &str, count: u32) -> Self {
        Self { ready: OnceLock::new(), name: name.into(), count }
    }

    /// How many there are, which looks at none.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The labels, shared.
    pub fn shared(&self) -> &Arc<Labels> {
        self.ready.get_or_init(|| Arc::new(GraphiteName::parse(&self.name).labels().unwrap_or_default()))
    }

    /// Bytes of the name that it holds.
    pub fn name_bytes(&self) -> u64 {
        match self.name.len() {
            0 => 0,
            bytes => bytes as u64 + NAME_BYTES,
        }
    }
}

impl From<Arc<Labels>> for SeriesLabels {
    fn from(labels: Arc<Labels>) -> Self {
        let count = labels.len() as u32;
        Self { ready: OnceLock::from(labels), name: Box::default(), count }
    }
}

impl Deref for SeriesLabels {
    type Target = Labels;

    fn deref(&self) -> &Labels {
        self.shared()
    }
}

impl fmt::Display for SeriesLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_made_of_a_name_when_they_are_looked_at() {
        let of_name = SeriesLabels::of_name("m;a=b", 3);
        assert_eq!((of_name.count(), of_name.name_bytes()), (3, 5 + NAME_BYTES));
        assert_eq!((of_name.len(), of_name.get("a")), (3, Some("b")));
        let at_hand = SeriesLabels::from(Arc::new(Labels::from_pairs([("__name__", "m")])));
        assert_eq!((at_hand.count(), at_hand.name_bytes(), at_hand.get("__name__")), (1, 0, Some("m")));
    }
}
