//! Tenant ids. The grammar is that of Mimir and Loki, so that existing tenant ids stay valid.

use std::fmt;
use std::sync::Arc;

/// A valid tenant id: 1 to 150 characters of `[0-9A-Za-z!\-_.*'()]`, not `.` or `..`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId(Arc<str>);

/// The longest tenant id, in bytes.
const LENGTH_MAX: usize = 150;

/// Why a text is not a tenant id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// The id is empty or missing.
    #[error("no org id")]
    Missing,
    /// The id has more than 150 bytes.
    #[error("tenant ID is too long: max {LENGTH_MAX} characters")]
    TooLong,
    /// The id has a character outside the grammar, or is `.` or `..`.
    #[error("tenant ID '{0}' contains unsupported characters: allowed are letters, digits and !-_.*'()")]
    Unsupported(String),
}

impl TenantId {
    /// The id of the tenant of requests without a tenant id.
    pub const DEFAULT: &'static str = "fake";

    /// Checks an id.
    pub fn new(id: &str) -> Result<Self, TenantError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!-_.*'()".contains(&b);
        if id.is_empty() {
            return Err(TenantError::Missing);
        }
        if id.len() > LENGTH_MAX {
            return Err(TenantError::TooLong);
        }
        if id == "." || id == ".." || !id.bytes().all(allowed) {
            return Err(TenantError::Unsupported(id.to_owned()));
        }
        Ok(Self(id.into()))
    }

    /// An id for a query over several tenants: their ids, sorted and without duplicates, separated by
    /// `|`. No data is stored under such an id.
    pub fn several(ids: impl IntoIterator<Item = Self>) -> Result<Self, TenantError> {
        let ids: std::collections::BTreeSet<Self> = ids.into_iter().collect();
        let texts: Vec<&str> = ids.iter().map(Self::as_str).collect();
        if texts.is_empty() {
            return Err(TenantError::Missing);
        }
        Ok(Self(texts.join("|").into()))
    }

    /// The tenants of this id: the tenant itself, or each of several.
    pub fn each(&self) -> impl Iterator<Item = Self> {
        self.0.split('|').map(|id| Self(id.into()))
    }

    /// Whether the id stands for several tenants.
    pub fn is_several(&self) -> bool {
        self.0.contains('|')
    }

    /// The tenant of requests without a tenant id.
    pub fn default_tenant() -> Self {
        Self(Self::DEFAULT.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as one path segment: every byte outside `[A-Za-z0-9_-]` becomes `~xx` in hexadecimal, so
    /// that no id can leave its directory or collide with another.
    pub fn path_segment(&self) -> String {
        let mut segment = String::with_capacity(self.0.len());
        for b in self.0.bytes() {
            if b.is_ascii_alphanumeric() || b == b'_' || b == b'-' {
                segment.push(b as char);
            } else {
                segment.push_str(&format!("~{b:02x}"));
            }
        }
        segment
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_tenant_ids_are_refused() {
        assert_eq!(TenantId::new("team-a_1.(x)*'!").unwrap().path_segment(), "team-a_1~2e~28x~29~2a~27~21");
        assert_eq!(TenantId::new("").unwrap_err(), TenantError::Missing);
        assert_eq!(TenantId::new(&"x".repeat(151)).unwrap_err(), TenantError::TooLong);
        let several = TenantId::several(["b", "a", "b"].map(|id| TenantId::new(id).unwrap())).unwrap();
        assert_eq!((several.as_str(), several.is_several(), several.each().count()), ("a|b", true, 2));
        for bad in [".", "..", "a/b", "a b", "ä", "a|b"] {
            assert!(TenantId::new(bad).is_err(), "{bad}");
        }
    }
}
