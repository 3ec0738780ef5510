//! The work that a node of a cluster does.

use std::fmt;
use std::str::FromStr;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Takes pushes, and adopts the rows of writers that died.
    Ingest,
    /// Answers queries.
    Query,
    /// Merges blocks, applies retention and deletes, makes rollups.
    Compact,
    /// Keeps parts of blocks for other nodes.
    Cache,
    /// Evaluates recording and alerting rules.
    Rules,
    /// Has rules of files. A process with the role `rules` states this itself; nobody chooses it.
    RuleFiles,
}

impl Role {
    /// All roles, in the order of their bits.
    pub const ALL: [Self; 6] =
        [Self::Ingest, Self::Query, Self::Compact, Self::Cache, Self::Rules, Self::RuleFiles];
    /// The roles that people choose.
    pub const CHOSEN: [Self; 5] = [Self::Ingest, Self::Query, Self::Compact, Self::Cache, Self::Rules];
    /// The roles of which each needs a node. Without rules no node needs the role `rules`.
    pub const NEEDED: [Self; 4] = [Self::Ingest, Self::Query, Self::Compact, Self::Cache];

    /// The name in options and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Query => "query",
            Self::Compact => "compact",
            Self::Cache => "cache",
            Self::Rules => "rules",
            Self::RuleFiles => "rule-files",
        }
    }

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no role '{0}': the roles are ingest, query, compact, cache and rules")]
pub struct RoleError(String);

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::CHOSEN.into_iter().find(|role| role.name() == text);
        named.ok_or_else(|| RoleError(text.to_owned()))
    }
}

/// A set of roles. Keeps bits of roles that this program does not know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Roles(u32);

impl Roles {
    /// Every role that people choose.
    pub const ALL: Self = Self((1 << Role::CHOSEN.len()) - 1);
    /// No role.
    pub const NONE: Self = Self(0);

    /// Returns the set with these bits, as [`Self::bits`] returned them.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// One bit per role, in the order of [`Role::ALL`]. The bits of a role never change: they are stored.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether the set contains a role.
    pub fn has(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }

    /// Returns the set with a role.
    #[must_use]
    pub fn with(self, role: Role) -> Self {
        Self(self.0 | role.bit())
    }

    /// Returns the set without a role.
    #[must_use]
    pub fn without(self, role: Role) -> Self {
        Self(self.0 & !role.bit())
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |bits, role| bits | role.bit()))
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Role::ALL.into_iter().filter(|role| self.has(*role)).map(Role::name).collect();
        f.write_str(&names.join(","))
    }
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roles({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_stored_and_never_change() {
        let bits: Vec<u32> = Role::ALL.into_iter().map(|role| Roles::from_iter([role]).bits()).collect();
        assert_eq!(bits, [1, 2, 4, 8, 16, 32]);
        assert_eq!(Roles::ALL.to_string(), "ingest,query,compact,cache,rules");
        assert_eq!(Roles::from_bits(1 << 31 | 4).to_string(), "compact", "of a later program");
        assert!(!Roles::ALL.without(Role::Compact).has(Role::Compact));
    }

    #[test]
    fn names_are_parsed() {
        for role in Role::CHOSEN {
            assert_eq!(role.name().parse(), Ok(role));
        }
        assert!("rule-files".parse::<Role>().is_err());
        let error = "store".parse::<Role>().unwrap_err().to_string();
        assert!(error.contains("'store'") && error.contains("ingest, query, compact"), "{error}");
    }
}
