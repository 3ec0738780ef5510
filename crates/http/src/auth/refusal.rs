//! Why a request is refused before it is handled.

use super::scope::Scope;

/// Why a request is refused. The text is for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request has no credential.
    #[error("no credential: send `Authorization: Bearer TOKEN`, or user and password with Basic")]
    Missing,
    /// The header is malformed.
    #[error("the Authorization header is neither `Bearer TOKEN` nor `Basic BASE64` of user:password")]
    Malformed,
    /// Unknown token or user, or wrong password.
    #[error("unknown token, or wrong user or password")]
    Unknown,
    /// Too many passwords wait to be checked.
    #[error("too many passwords are being checked; try again, or use a token")]
    Busy,
    /// The credential lacks this scope.
    #[error("this credential has no scope '{0}'")]
    Scope(Scope),
    /// The credential may not act for this tenant.
    #[error("this credential may not act for tenant '{0}' (X-Scope-OrgID)")]
    Tenant(String),
    /// The credential has several tenants and the request names none.
    #[error("this credential has several tenants: choose one with X-Scope-OrgID")]
    NoTenant,
    /// The request is addressed to a host name that is not ours.
    #[error(
        "'{0}' is not a name of this server (Host): without auth.file a server on loopback accepts only \
         localhost, 127.0.0.1 and [::1]; add other names to http.allowed_hosts"
    )]
    ForeignHost(String),
    /// The request comes from a page of another origin.
    #[error(
        "a page of '{0}' may not send this request (Origin); add its host to http.allowed_hosts to \
         allow it"
    )]
    ForeignOrigin(String),
    /// A page of another site would read the answer as a script.
    #[error(
        "{0} may not read this with <script> (jsonp): use fetch() without jsonp, or add the host of the \
         page to http.allowed_hosts and let the browser send it (Referer)"
    )]
    ForeignScript(String),
}

impl Refusal {
    /// A word for counters and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Busy => "busy",
            Self::Scope(_) => "scope",
            Self::Tenant(_) | Self::NoTenant => "tenant",
            Self::ForeignHost(_) => "host",
            Self::ForeignOrigin(_) => "origin",
            Self::ForeignScript(_) => "jsonp",
        }
    }
}
