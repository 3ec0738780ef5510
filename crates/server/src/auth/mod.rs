//! Who may call: credentials from a file, each with tenants and scopes, and the audit of what they do.
//!
//! **Life of a check.** [`Authority::verify`] takes the `Authorization` header of a request, finds the
//! [`Credential`] behind its token or user and password, and [`Credential::allow`] says whether it has the
//! scope and which tenant it acts for. The protocols in front (HTTP, gRPC) only translate a [`Refusal`].
//!
//! **Invariants.** No secret is kept, logged or compared in a time that depends on how much of it is right.
//! Work for a request without a valid credential is bounded: one hash for a token, one password at a time.
//! A file that cannot be used never changes who may call.

mod audit;
mod authority;
mod credential;
mod credentials;
mod file;
mod refusal;
mod scope;
mod secret;
mod tenants;

pub use audit::{Asked, Audit, Pending};
pub use authority::Authority;
pub use credential::Credential;
pub use file::Error;
pub use refusal::Refusal;
pub use scope::{Scope, Scopes};
pub use secret::{PASSWORD_BYTES_MAX, new_token, password_hash, token_hash};
pub use tenants::Tenants;
