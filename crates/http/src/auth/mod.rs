//! Authentication and authorization: credentials from a file, each with tenants and scopes, and the audit
//! log.
//!
//! **Life of a check.** [`Authority::verify`] reads the `Authorization` header of a request and finds the
//! [`Credential`] of its token or user. [`Credential::allow`] checks the scope and determines the tenant.
//! The protocols (HTTP, gRPC) only translate a [`Refusal`].
//!
//! A browser may send the token as the cookie of its session instead ([`session_cookie`]).
//!
//! **Invariants.** Secrets are not stored or logged, and are compared in constant time. The work for a
//! request without a valid credential is bounded: one hash for a token, one password at a time. A file
//! that cannot be used never changes the credentials.

mod audit;
mod authority;
mod credential;
mod credentials;
mod file;
mod refusal;
mod scope;
mod secret;
pub mod session_cookie;
mod tenants;

pub use audit::{Asked, Audit, Pending};
pub use authority::Authority;
pub use credential::Credential;
pub use file::Error;
pub use refusal::Refusal;
pub use scope::{Scope, Scopes};
pub use secret::{PASSWORD_BYTES_MAX, new_token, password_hash, token_hash};
pub use tenants::Tenants;
