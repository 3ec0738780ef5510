//! The services of the shop, and a line of one.

/// One line of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// The text, which may contain line breaks (stack traces).
    pub text: String,
    /// Structured metadata.
    pub metadata: Vec<(&'static str, String)>,
}

/// A service, and the `app` label of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Gateway,
    Auth,
    Catalog,
    Checkout,
    Payments,
    Inventory,
    Mailer,
    Postgres,
    Kernel,
}

impl Service {
    pub(crate) const EVERY: [Self; 9] = [
        Self::Gateway,
        Self::Auth,
        Self::Catalog,
        Self::Checkout,
        Self::Payments,
        Self::Inventory,
        Self::Mailer,
        Self::Postgres,
        Self::Kernel,
    ];

    pub(crate) fn app(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Auth => "auth",
            Self::Catalog => "catalog",
            Self::Checkout => "checkout",
            Self::Payments => "payments",
            Self::Inventory => "inventory",
            Self::Mailer => "mailer",
            Self::Postgres => "postgres",
            Self::Kernel => "node",
        }
    }
}
