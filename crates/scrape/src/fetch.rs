//! Fetching a target's text: what a loop asks of HTTP.

use std::time::Duration;

use sandur_base::{BoxFuture, MemoryBudget, Reservation};

use crate::config::{Auth, Tls};

/// One request.
pub struct FetchRequest<'a> {
    /// The whole URL.
    pub url: &'a str,
    /// Who asks.
    pub auth: &'a Auth,
    /// How an encrypted target is trusted.
    pub tls: &'a Tls,
    /// Until the whole body is there.
    pub timeout: Duration,
    /// Most bytes of the body.
    pub body_max: u64,
    /// Where memory for the body comes from.
    pub memory: &'a MemoryBudget,
}

/// A body and what it holds of memory.
pub struct Fetched {
    /// Its content type; empty when the target does not say.
    pub content_type: String,
    /// The bytes.
    pub body: Vec<u8>,
    /// Dropped when the bytes are not needed any more.
    pub memory: Reservation,
}

/// What a target is asked for, best first.
pub const ACCEPT: &str =
    "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// Fetches. HTTP in a server, made-up answers in tests.
pub trait Fetch: Send + Sync {
    /// The body of a good answer; the error is what `lastError` of the target says.
    fn fetch<'a>(&'a self, request: FetchRequest<'a>) -> BoxFuture<'a, Result<Fetched, String>>;
}
