//! What a request is about.

use crate::intent::Intent;
use crate::lane::Lane;
use crate::operation::Operation;

/// What a request is about, for gates, meters and messages.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub intent: &'a Intent,
    pub operation: Operation,
    pub path: &'a str,
    /// Bytes that each attempt sends or, as far as known, receives.
    pub bytes: u64,
}

impl Call<'_> {
    /// What it shares slots with.
    pub fn lane(&self) -> Lane {
        Lane::of(self.intent.class, self.operation)
    }
}
