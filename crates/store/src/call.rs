//! Description of a request.

use crate::intent::Intent;
use crate::lane::Lane;
use crate::operation::Operation;

/// Description of a request, for gates, meters and messages.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub intent: &'a Intent,
    pub operation: Operation,
    pub path: &'a str,
    /// Bytes that each attempt sends, or receives as far as known; else 0.
    pub bytes: u64,
}

impl Call<'_> {
    /// The lane whose slots it uses.
    pub fn lane(&self) -> Lane {
        Lane::of(self.intent.class, self.operation)
    }
}
