//! Why a piece of a block cannot be read, and what queries do about it.

use std::sync::Arc;

use sandur_format::catalog_entry::BlockMeta;
use sandur_memory::OverBudget;
use sandur_query::{Error as QueryError, QueryContext};

use super::filter::FilterError;

/// Why a piece of a block cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The object does not exist.
    #[error("block '{path}' is missing from the store; the answer lacks its rows, run 'sandur check'")]
    Missing {
        /// The block's path.
        path: String,
    },
    /// The object's bytes are wrong.
    #[error("block '{path}' is damaged, the answer lacks rows of it: {reason}")]
    Damaged {
        /// The block's path.
        path: String,
        /// What is wrong, and where.
        reason: String,
    },
    /// The store did not answer.
    #[error("reading block '{path}': {reason}")]
    Store {
        /// The block's path.
        path: String,
        /// The store's error.
        reason: Arc<sandur_store::Error>,
    },
    /// The delete requests that may hide rows of the block cannot be applied.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The budget of the query or of upkeep has no memory for the piece.
    #[error(transparent)]
    Memory(#[from] OverBudget),
}

impl ReadError {
    /// The error of a damaged part of a block.
    pub fn damaged(meta: &BlockMeta, reason: impl ToString) -> Self {
        Self::Damaged { path: meta.path(), reason: reason.to_string() }
    }

    pub(crate) fn store(meta: &BlockMeta, error: sandur_store::Error) -> Self {
        let path = meta.path();
        if error.is_not_found() {
            Self::Missing { path }
        } else if error.is_of_object() {
            Self::Damaged { path, reason: error.to_string() }
        } else {
            Self::Store { path, reason: Arc::new(error) }
        }
    }
}

/// Turns a missing or damaged block into a warning. Fails if the store does not answer, a delete request
/// cannot be applied, or memory is short.
pub(crate) fn or_warn<T>(
    context: &QueryContext,
    read: Result<T, ReadError>,
) -> Result<Option<T>, QueryError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error @ ReadError::Store { .. }) => Err(QueryError::Unavailable(error.to_string())),
        Err(ReadError::Filter(error)) => Err(error.into()),
        Err(ReadError::Memory(refusal)) => Err(refusal.into()),
        Err(damage) => {
            context.warn(damage.to_string());
            Ok(None)
        }
    }
}
