//! The tenants of credentials.

use sandur_model::TenantId;

use super::refusal::Refusal;

/// Tenants of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenants {
    /// Every tenant: the request chooses, as when a proxy authenticates.
    Every,
    /// These tenants, at least one.
    Named(Vec<TenantId>),
}

impl Tenants {
    /// Parses ids, or `*` alone. The error says what is wrong.
    pub fn parse<'a>(ids: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let ids: Vec<&str> = ids.into_iter().collect();
        match ids.as_slice() {
            [] => Err("contains no tenant: give at least one, or \"*\" for all".to_owned()),
            ["*"] => Ok(Self::Every),
            ids if ids.contains(&"*") => {
                Err("\"*\" means every tenant and must be the only entry".to_owned())
            }
            ids => {
                let named: Result<Vec<TenantId>, _> = ids.iter().map(|id| TenantId::new(id)).collect();
                named.map(Self::Named).map_err(|error| error.to_string())
            }
        }
    }

    /// The ids in quotes, separated by commas, as in a file.
    pub fn quoted(&self) -> String {
        match self {
            Self::Every => "\"*\"".to_owned(),
            Self::Named(named) => named.iter().map(|id| format!("\"{id}\"")).collect::<Vec<_>>().join(", "),
        }
    }

    /// The tenant that a request acts for; several are joined with `|`. It is that of `X-Scope-OrgID` if
    /// that is allowed, or else the only one. `None` leaves the choice to the server's default.
    pub fn choose(&self, asked: Option<&str>) -> Result<Option<String>, Refusal> {
        let Self::Named(named) = self else { return Ok(asked.map(str::to_owned)) };
        match (asked, named.as_slice()) {
            (None, [only]) => Ok(Some(only.to_string())),
            (None, _) => Err(Refusal::NoTenant),
            (Some(asked), named) => {
                let ours = |id: &str| named.iter().any(|tenant| tenant.as_str() == id.trim());
                match asked.split('|').find(|id| !ours(id)) {
                    None => Ok(Some(asked.to_owned())),
                    Some(foreign) => Err(Refusal::Tenant(foreign.trim().to_owned())),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_no_tenant_that_its_credential_does_not_name() {
        let choose = |ids: &[&str], asked| Tenants::parse(ids.iter().copied()).unwrap().choose(asked);
        assert_eq!(choose(&["a"], None), Ok(Some("a".to_owned())));
        assert_eq!(choose(&["a"], Some(" a ")), Ok(Some(" a ".to_owned())));
        assert_eq!(choose(&["a"], Some("b")), Err(Refusal::Tenant("b".to_owned())));
        assert_eq!(choose(&["a"], Some("")), Err(Refusal::Tenant(String::new())));
        assert_eq!(choose(&["a", "b"], None), Err(Refusal::NoTenant));
        assert_eq!(choose(&["a", "b"], Some("b|a")), Ok(Some("b|a".to_owned())));
        assert_eq!(choose(&["a", "b"], Some("a|c")), Err(Refusal::Tenant("c".to_owned())));
        assert_eq!(choose(&["a", "b"], Some("a|")), Err(Refusal::Tenant(String::new())));
        assert_eq!(choose(&["*"], Some("a|b")), Ok(Some("a|b".to_owned())));
        assert_eq!(choose(&["*"], None), Ok(None));
        for bad in [&[][..], &["*", "a"], &["a/b"], &[""]] {
            assert!(Tenants::parse(bad.iter().copied()).is_err(), "{bad:?}");
        }
    }
}
