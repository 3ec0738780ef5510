//! A credential: its tenants and scopes.

use super::refusal::Refusal;
use super::scope::{Scope, Scopes};
use super::secret::Digest;
use super::tenants::Tenants;

/// A verified identity and its permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// Kind and name, for the audit log.
    pub name: String,
    /// The tenants that it may act for.
    pub tenants: Tenants,
    /// Its scopes.
    pub scopes: Scopes,
    /// Hash of its secret's entry in the file: a changed secret is another credential.
    pub fingerprint: Digest,
}

impl Credential {
    /// Checks the scope and the requested tenant. Returns the tenant that the request acts for.
    pub fn allow(&self, scope: Option<Scope>, asked: Option<&str>) -> Result<Option<String>, Refusal> {
        match scope {
            // A route without a scope concerns no tenant.
            None => Ok(None),
            Some(scope) if !self.scopes.has(scope) => Err(Refusal::Scope(scope)),
            // The process belongs to no tenant: a request to stop it need not name one.
            Some(Scope::Admin) => Ok(None),
            Some(_) => self.tenants.choose(asked),
        }
    }
}
