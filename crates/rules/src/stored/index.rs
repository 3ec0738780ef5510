//! The index: which object has the rules of each tenant.
//!
//! It is the only object of stored rules that changes. A change writes the rules of a tenant to a new object
//! and then replaces the index, on condition that nobody else did in the meantime.
//!
//! **Invariants.** The generation grows with each change. An entry has the digest of its object, so that an
//! object that was cut, changed or swapped is noticed. The object before it stays until the next change.

use std::collections::BTreeMap;

use sandur_base::Id;
use sandur_model::TenantId;
use serde::{Deserialize, Serialize};

use super::envelope::{self, Kind, digest};
use super::error::StoredError;

/// The object.
pub const INDEX: &str = "rules/index";
/// The most tenants with stored rules.
pub const TENANTS_MAX: usize = 10_000;
/// The most bytes of a tenant: an id of 150 bytes, and two references with paths of 490, digests of 32 and
/// names of 50 bytes.
pub const ENTRY_BYTES: u64 = 1_400;
/// The largest index: [`TENANTS_MAX`] times [`ENTRY_BYTES`], and its head.
const INDEX_BYTES_MAX: usize = 14 << 20;
/// Memory of an index, in multiples of its size: its bytes, their texts, and maps.
pub const INDEX_MEMORY_PER_BYTE: u64 = 4;

/// A reference to an object with the rules of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The path of the object.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub digest: String,
}

impl Reference {
    /// A reference to a new object of a tenant.
    pub fn new(tenant: &TenantId, id: Id, bytes: &[u8]) -> Self {
        let path = format!("rules/{}/{id}", tenant.path_segment());
        Self { path, bytes: bytes.len() as u64, digest: digest(bytes) }
    }

    /// Whether these are the bytes of the object.
    pub fn check(&self, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() as u64 != self.bytes {
            return Err(format!("it has {} bytes instead of {}", bytes.len(), self.bytes));
        }
        match digest(bytes) == self.digest {
            true => Ok(()),
            false => Err("its digest is not that of the index: the object was changed or swapped".to_owned()),
        }
    }
}

/// The objects of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The rules that hold.
    pub now: Reference,
    /// The rules before the last change.
    pub before: Option<Reference>,
}

/// The index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The number of changes so far.
    pub generation: u64,
    /// Makes the bytes of each change unique.
    id: String,
    /// The tenants with stored rules.
    pub tenants: BTreeMap<String, Entry>,
}

impl Index {
    /// Reads the object.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > INDEX_BYTES_MAX {
            return Err(format!("it has {} bytes, at most {INDEX_BYTES_MAX}", bytes.len()));
        }
        let index: Self = envelope::open(Kind::Index, bytes)?;
        match index.tenants.keys().find(|tenant| TenantId::new(tenant).is_err()) {
            Some(tenant) => Err(format!("it names an invalid tenant '{tenant}'")),
            None => Ok(index),
        }
    }

    /// An index without tenants.
    pub fn first(id: Id) -> Self {
        Self { generation: 1, id: id.to_string(), tenants: BTreeMap::new() }
    }

    /// Whether it names an object.
    pub fn refers_to(&self, object: &Reference) -> bool {
        let is = |reference: &Reference| reference.path == object.path;
        self.tenants.values().any(|entry| is(&entry.now) || entry.before.as_ref().is_some_and(is))
    }

    /// The object.
    pub fn encode(&self) -> Result<Vec<u8>, StoredError> {
        let bytes = envelope::seal(Kind::Index, self);
        match bytes.len() > INDEX_BYTES_MAX {
            true => Err(StoredError::limit(
                "bytes of the index",
                bytes.len(),
                INDEX_BYTES_MAX as u64,
                "of a bucket",
            )),
            false => Ok(bytes),
        }
    }

    /// The index after a change of a tenant, and the object that nothing refers to any more. Without a
    /// reference, the tenant has no rules.
    pub fn with(
        &self,
        tenant: &TenantId,
        id: Id,
        now: Option<Reference>,
    ) -> Result<(Self, Vec<Reference>), StoredError> {
        let mut next =
            Self { generation: self.generation + 1, id: id.to_string(), tenants: self.tenants.clone() };
        let former = next.tenants.remove(tenant.as_str());
        let dropped = match (former, now) {
            (Some(Entry { now: last, before }), Some(now)) => {
                next.tenants.insert(tenant.to_string(), Entry { now, before: Some(last) });
                before.into_iter().collect()
            }
            (None, Some(now)) => {
                next.tenants.insert(tenant.to_string(), Entry { now, before: None });
                Vec::new()
            }
            (Some(Entry { now: last, before }), None) => before.into_iter().chain([last]).collect(),
            (None, None) => Vec::new(),
        };
        match next.tenants.len() > TENANTS_MAX {
            true => Err(StoredError::limit(
                "tenants with rules",
                next.tenants.len(),
                TENANTS_MAX as u64,
                "of a bucket",
            )),
            false => Ok((next, dropped)),
        }
    }
}
