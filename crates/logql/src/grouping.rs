//! The labels by which series are grouped.

use std::fmt;
use std::sync::Arc;

use crate::matrix::Labels;

/// `by (..)` or `without (..)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Whether the labels are those of `without`.
    pub without: bool,
    /// The labels.
    pub labels: Vec<String>,
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.without { "without" } else { "by" };
        write!(f, "{word} ({})", self.labels.join(","))
    }
}

/// The labels of the group to which a series belongs.
pub fn group_labels(labels: &Labels, grouping: Option<&Grouping>) -> Labels {
    let Some(grouping) = grouping else { return Labels::default() };
    let named = |name: &str| grouping.labels.iter().any(|l| l == name);
    // `without` drops empty labels, as in Prometheus; `by` keeps them.
    let kept = |(name, value): &&(Arc<str>, Arc<str>)| match grouping.without {
        true => !named(name) && !value.is_empty(),
        false => named(name),
    };
    labels.iter().filter(kept).cloned().collect::<Vec<_>>().into()
}
