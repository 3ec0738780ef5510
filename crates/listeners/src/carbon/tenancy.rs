//! The tenant of points: by the listener, by a prefix of their names, or by the first node of their
//! paths.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sandur_carbon::{Point, Protocol, Refusal, Sink};
use sandur_model::TenantId;

use sandur_config::Carbon;

/// Maximum number of tenants of one block; names of others are rejected.
const TENANTS_MAX: usize = 64;

/// How the tenant of a name is determined.
#[derive(Clone, Debug)]
pub struct Tenancy {
    /// The tenant of all other names.
    fallback: TenantId,
    /// Longest prefix first.
    prefixes: Vec<(String, TenantId)>,
    by_first_node: bool,
}

/// The tenants of a block, with their numbers.
#[derive(Clone, Debug)]
pub struct BlockTenants {
    /// The tenants.
    pub tenants: Vec<TenantId>,
    numbers: HashMap<TenantId, usize>,
}

impl Tenancy {
    /// The tenancy of a listener; if its own tenant is empty, that of all listeners applies.
    pub fn of(settings: &Carbon, own: &str) -> Result<Self, String> {
        let named = |key: &str, name: &str| match name {
            "" => Ok(TenantId::default_tenant()),
            name => TenantId::new(name).map_err(|error| format!("{key}: {error}")),
        };
        let fallback = if own.is_empty() { &*settings.tenant } else { own };
        let mut prefixes = Vec::new();
        for pair in &settings.tenant_by_prefix {
            let (prefix, tenant) = pair.rsplit_once('=').ok_or_else(|| {
                format!("carbon.tenant_by_prefix: '{pair}' is not PREFIX=TENANT, such as prod.=production")
            })?;
            prefixes.push((prefix.to_owned(), named("carbon.tenant_by_prefix", tenant)?));
        }
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let by_first_node = settings.tenant_by_first_node;
        Ok(Self { fallback: named("carbon.tenant", fallback)?, prefixes, by_first_node })
    }

    /// All names belong to this tenant.
    pub fn only(tenant: TenantId) -> Self {
        Self { fallback: tenant, prefixes: Vec::new(), by_first_node: false }
    }

    /// The tenant of a name.
    pub fn tenant_of(&self, name: &str) -> TenantId {
        if let Some((_, tenant)) = self.prefixes.iter().find(|(prefix, _)| name.starts_with(&**prefix)) {
            return tenant.clone();
        }
        let first_node = || {
            let name = name.trim_start_matches(['~', '.']);
            let end = name.find(['.', ';', '{']).unwrap_or(name.len());
            TenantId::new(&name[..end]).ok()
        };
        let by_node = if self.by_first_node { first_node() } else { None };
        by_node.unwrap_or_else(|| self.fallback.clone())
    }

    /// The tenants of a block. If only the listener determines them, the block is not read.
    pub fn of_block(&self, (protocol, alone): (&Protocol, bool), bytes: &[u8]) -> BlockTenants {
        let mut found = BlockTenants { tenants: Vec::new(), numbers: HashMap::new() };
        if self.prefixes.is_empty() && !self.by_first_node {
            found.add(self.fallback.clone());
            return found;
        }
        let read = if alone { protocol.read_alone } else { protocol.read };
        let _ = read(bytes, 0, &mut Finding { tenancy: self, found: &mut found });
        if found.tenants.is_empty() {
            found.add(self.fallback.clone());
        }
        found
    }
}

impl BlockTenants {
    fn add(&mut self, tenant: TenantId) {
        if self.tenants.len() < TENANTS_MAX && !self.numbers.contains_key(&tenant) {
            self.numbers.insert(tenant.clone(), self.tenants.len());
            self.tenants.push(tenant);
        }
    }

    /// The number of a tenant; an invalid one if there are too many tenants.
    pub fn number(&self, tenant: &TenantId) -> usize {
        self.numbers.get(tenant).copied().unwrap_or(usize::MAX)
    }
}

struct Finding<'a> {
    tenancy: &'a Tenancy,
    found: &'a mut BlockTenants,
}

impl Sink for Finding<'_> {
    fn point(&mut self, point: Point<'_>) -> ControlFlow<()> {
        self.found.add(self.tenancy.tenant_of(point.name));
        ControlFlow::Continue(())
    }

    fn refused(&mut self, _: Refusal, _: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use sandur_carbon::PLAINTEXT;

    use super::*;

    #[test]
    fn a_name_belongs_to_its_longest_prefix_then_to_its_first_node_then_to_the_listener() {
        let mut settings = Carbon { tenant: "all".to_owned(), ..Carbon::default() };
        settings.tenant_by_prefix = vec!["prod.=production".to_owned(), "prod.db.=databases".to_owned()];
        let tenancy = Tenancy::of(&settings, "").unwrap();
        let of = |tenancy: &Tenancy, name: &str| tenancy.tenant_of(name).as_str().to_owned();
        assert_eq!(of(&tenancy, "prod.db.x"), "databases");
        assert_eq!(of(&tenancy, "prod.web.x"), "production");
        assert_eq!(of(&tenancy, "test.web.x"), "all");
        settings.tenant_by_first_node = true;
        let tenancy = Tenancy::of(&settings, "own").unwrap();
        assert_eq!(of(&tenancy, "test.web.x"), "test");
        assert_eq!(of(&tenancy, "m;a=b"), "m");
        assert_eq!(of(&tenancy, "a/b.c"), "own", "not a valid name of a tenant");
        let block = tenancy.of_block((&PLAINTEXT, false), b"a.x 1 1\nb.x 1 1\na.y 1 1\n");
        assert_eq!(block.tenants.len(), 2);
        assert_eq!(block.number(&tenancy.tenant_of("b.z")), 1);
        settings.tenant_by_prefix = vec!["prod".to_owned()];
        assert!(Tenancy::of(&settings, "").unwrap_err().contains("PREFIX=TENANT"));
    }
}
