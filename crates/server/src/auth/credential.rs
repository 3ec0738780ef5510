//! A credential: for whom it acts and what it may do.

use super::refusal::Refusal;
use super::scope::{Scope, Scopes};
use super::secret::Digest;
use super::tenants::Tenants;

/// Whom a request comes from, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Kind and name, for the audit.
    pub name: String,
    /// For whom it acts.
    pub tenants: Tenants,
    /// What it may do.
    pub scopes: Scopes,
    /// Hash of what the file says of its secret: another one is another credential.
    pub fingerprint: Digest,
}

impl Credential {
    /// Whether it may do what needs the scope for the tenant that the request asks for; gives the tenant.
    pub fn allow(&self, scope: Option<Scope>, asked: Option<&str>) -> Result<Option<String>, Refusal> {
        match scope {
            // What needs no scope is no tenant's matter.
            None => Ok(None),
            Some(scope) if !self.scopes.has(scope) => Err(Refusal::Scope(scope)),
            // The process belongs to no tenant: a request to stop it need not name one.
            Some(Scope::Admin) => Ok(None),
            Some(_) => self.tenants.choose(asked),
        }
    }
}
