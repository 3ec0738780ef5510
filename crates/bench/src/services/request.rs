//! A request of a customer on its way through the services.

/// A request on its way.
pub(crate) struct Request {
    /// Nanoseconds since the epoch.
    pub(crate) start: i64,
    pub(crate) trace: String,
    pub(crate) user: &'static str,
    pub(crate) client: String,
    pub(crate) path: String,
    pub(crate) method: &'static str,
    /// Which instance of each service serves it.
    pub(crate) instance: u64,
}
