//! The interface for fetching the text of a target, and objects of Kubernetes.

use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_memory::{MemoryBudget, Reservation};

use crate::config::{Auth, Tls};

/// A request for the text of a target.
pub struct FetchRequest<'a> {
    /// The complete URL.
    pub url: &'a str,
    /// The `Accept` header.
    pub accept: &'a str,
    /// The credentials.
    pub auth: &'a Auth,
    /// How the certificate of the target is verified.
    pub tls: &'a Tls,
    /// The time within which the complete body must arrive.
    pub timeout: Duration,
    /// The largest body in bytes.
    pub body_max: u64,
    /// The budget for the memory of the body.
    pub memory: &'a MemoryBudget,
}

/// A body and its memory.
pub struct Fetched {
    /// The content type; empty if the target does not send one.
    pub content_type: String,
    /// The bytes.
    pub body: Vec<u8>,
    /// The reservation for the body, to be dropped with it.
    pub memory: Reservation,
}

/// The `Accept` header of scrapes, with the best format first.
pub(crate) const ACCEPT: &str =
    "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// Fetches texts: HTTP in a server, generated answers in tests.
pub trait Fetch: Send + Sync {
    /// Returns the body of a successful answer. An error becomes the `lastError` of the target.
    fn fetch<'a>(&'a self, request: FetchRequest<'a>) -> BoxFuture<'a, Result<Fetched, String>>;
}
