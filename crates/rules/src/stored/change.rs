//! What a client wants to change.

use sandur_model::TenantId;

use crate::spec::Language;

/// A change that a client wants.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The tenant.
    pub tenant: &'a TenantId,
    /// The API.
    pub language: Language,
    /// The namespace.
    pub namespace: &'a str,
    /// Whether to go on from the rules before the last change if the last ones are damaged.
    pub from_previous: bool,
}

impl Change<'_> {
    /// Whose rules are changed.
    pub(super) fn of(&self) -> Of {
        Of { tenant: self.tenant.clone(), from_previous: self.from_previous }
    }
}

/// Whose rules are changed, and what the change begins with.
pub struct Of {
    /// The tenant.
    pub tenant: TenantId,
    /// Whether to go on from the rules before the last change if the last ones are damaged.
    pub from_previous: bool,
}
