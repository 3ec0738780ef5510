//! Which labels of series a query reads.

use std::sync::Arc;

/// The labels to read of series.
#[derive(Clone, Debug, Default)]
pub(crate) enum WantedLabels {
    /// All labels.
    #[default]
    All,
    /// Only these labels.
    Some(Arc<[String]>),
}

impl WantedLabels {
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(names) => names.iter().any(|wanted| wanted == name),
        }
    }
}
