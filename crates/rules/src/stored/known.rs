//! What this process knows of stored rules.
//!
//! **Invariant.** What could not be read leaves the groups of before in place, together with the error.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_memory::Reservation;
use sandur_model::TenantId;

use super::document::Document;
use super::error::StoredError;
use super::index::{INDEX, Index, Reference};
use crate::shown::FileShown;
use crate::silence::Silences;
use crate::spec::GroupSpec;

/// What to do about a damaged object of a tenant.
pub const OF_TENANT: &str = "what held before stays in use; restore the object, or repeat the request with \
                             ?base=previous, which goes on from the rules before the last change";
/// What to do if the object of before is damaged, too.
pub const OF_BEFORE: &str = "the rules before the last change are damaged as well; restore one of both \
                             objects";
/// What to do about a damaged index.
pub const OF_INDEX: &str = "what held before stays in use; restore the object, or remove all objects below \
                            rules/ and restart the processes to begin without stored rules";

/// The rules of a tenant.
pub struct Held {
    /// The object that was read last, or could not be read.
    pub of: Reference,
    /// The rules in use.
    pub rules: Usable,
    /// Why they are not those of the object.
    pub error: Option<String>,
}

/// Rules that can be used.
#[derive(Clone)]
pub struct Usable {
    /// As they are stored.
    pub document: Arc<Document>,
    /// The groups, for evaluation.
    pub specs: Arc<Vec<GroupSpec>>,
    /// The silences, for being applied.
    pub silences: Arc<Silences>,
    /// The memory of all.
    pub _memory: Arc<Reservation>,
}

/// The index with the rules of all tenants.
#[derive(Default)]
pub struct Known {
    /// The last index that could be read.
    pub index: Arc<Index>,
    /// Its memory; `None` before one was read.
    pub index_memory: Option<Arc<Reservation>>,
    /// Why a newer one could not be read.
    pub error: Option<String>,
    /// The rules.
    pub held: BTreeMap<TenantId, Held>,
    /// Why rules that the index names could not be read, although nothing is known to be damaged.
    pub failed: BTreeMap<TenantId, StoredError>,
    /// Whether an index was read with all that it names.
    pub is_complete: bool,
    /// Whether the index was lost before the start, once that is known.
    pub was_lost: Option<bool>,
}

impl Known {
    /// The stored rules of a tenant, for its clients.
    pub fn document(&self, tenant: &TenantId) -> Result<Arc<Document>, StoredError> {
        if let Some(reason) = self.error.clone() {
            return Err(StoredError::Broken { object: INDEX.to_owned(), reason, remedy: OF_INDEX });
        }
        if let Some(error) = self.failed.get(tenant) {
            return Err(error.clone());
        }
        match self.held.get(tenant) {
            None => Ok(Arc::new(Document::empty(tenant))),
            Some(Held { error: Some(reason), of, .. }) => {
                let (object, reason) = (of.path.clone(), reason.clone());
                Err(StoredError::Broken { object, reason, remedy: OF_TENANT })
            }
            Some(held) => Ok(Arc::clone(&held.rules.document)),
        }
    }

    /// Tenants with groups.
    pub fn tenants(&self) -> Vec<TenantId> {
        let with_groups = self.held.iter().filter(|(_, held)| !held.rules.specs.is_empty());
        with_groups.map(|(tenant, _)| tenant.clone()).collect()
    }

    /// The groups of a tenant.
    pub fn specs(&self, tenant: &TenantId) -> Arc<Vec<GroupSpec>> {
        self.held.get(tenant).map(|held| Arc::clone(&held.rules.specs)).unwrap_or_default()
    }

    /// The silences of a tenant.
    pub fn silences(&self, tenant: &TenantId) -> Arc<Silences> {
        self.held.get(tenant).map(|held| Arc::clone(&held.rules.silences)).unwrap_or_default()
    }

    /// Errors about the rules of a tenant.
    pub fn shown(&self, tenant: &TenantId) -> Vec<FileShown> {
        let of_index = self.error.as_ref().map(|error| (INDEX.to_owned(), error));
        let held = self.held.get(tenant);
        let of_tenant = held.and_then(|held| Some((held.of.path.clone(), held.error.as_ref()?)));
        let shown = |(path, error): (String, &String)| FileShown {
            path,
            error: Some(format!("what held before stays in use: {error}")),
        };
        of_index.into_iter().chain(of_tenant).map(shown).collect()
    }

    /// How many objects cannot be read.
    pub fn broken(&self) -> usize {
        usize::from(self.error.is_some()) + self.held.values().filter(|held| held.error.is_some()).count()
    }
}
