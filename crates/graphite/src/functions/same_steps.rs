//! Counts the steps of a request.

use crate::error::{Error, Result};
use crate::scope::Scope;

/// The number of steps from the start of a request, inclusive, to its end, exclusive.
pub(super) fn same_steps(scope: &Scope, step: i64) -> Result<usize> {
    if step <= 0 {
        return Err(Error::invalid(format!("a step of {step} seconds: it must be longer than 0")));
    }
    let length = scope.until.epoch.saturating_sub(scope.from.epoch).max(0);
    Ok(usize::try_from(length / step + i64::from(length % step != 0)).unwrap_or(usize::MAX))
}
