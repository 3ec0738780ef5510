//! A customer's request to the services.

/// A customer's request.
pub(crate) struct Request {
    /// The start, in nanoseconds since the epoch.
    pub(crate) start: i64,
    pub(crate) trace: String,
    pub(crate) user: &'static str,
    pub(crate) client: String,
    pub(crate) path: String,
    pub(crate) method: &'static str,
    /// The instance of each service that serves it.
    pub(crate) instance: u64,
}
