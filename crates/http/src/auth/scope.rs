//! The scopes of credentials.

use std::fmt;

/// A kind of access. No scope includes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Queries, labels, and following.
    Read,
    /// Pushes.
    Write,
    /// Delete requests.
    Delete,
    /// Configuration, flushes and shutdown, for all tenants.
    Admin,
    /// Stored rules, as they are written.
    RulesRead,
    /// Changes of stored rules.
    RulesWrite,
}

impl Scope {
    /// All scopes, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Delete, Self::Admin, Self::RulesRead, Self::RulesWrite];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Admin => "admin",
            Self::RulesRead => "rules:read",
            Self::RulesWrite => "rules:write",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Parses names. The error lists the known ones.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        names.into_iter().try_fold(Self::default(), |scopes, name| {
            let known = Scope::ALL.into_iter().find(|scope| scope.name() == name);
            let all = Scope::ALL.map(Scope::name).join(", ");
            known
                .map(|scope| Self(scopes.0 | scope.bit()))
                .ok_or(format!("'{name}' is not a scope: the scopes are {all}"))
        })
    }

    /// Whether the set contains the scope.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// The names in quotes, separated by commas, as in a file.
    pub fn quoted(self) -> String {
        let names = Scope::ALL.into_iter().filter(|scope| self.has(*scope));
        names.map(|scope| format!("\"{scope}\"")).collect::<Vec<_>>().join(", ")
    }
}
