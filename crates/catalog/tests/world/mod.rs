//! Stores, blocks and short forms for the catalog's tests.

#![allow(dead_code)] // each test binary uses a part

use std::sync::Arc;

use object_store::memory::InMemory;
use sandur_base::{Env, Id};
use sandur_catalog::{Catalog, CatalogOptions, CommitError, Registration, Snapshot};
use sandur_format::catalog_entry::{BlockMeta, Edit, WalKind};
use sandur_model::{TenantId, TimeRange};
use sandur_store::Store;

/// 2026-11-21, in nanoseconds since the epoch.
pub const START_NS: i64 = 1_795_219_200_000_000_000;

pub fn memory(seed: u64) -> (Env, Store) {
    let env = Env::simulated(seed, START_NS);
    let store = Store::from_object_store(Arc::new(InMemory::new()), env.clone(), Default::default());
    (env, store)
}

pub fn options() -> CatalogOptions {
    CatalogOptions::default()
}

pub fn block(env: &Env, writer: Id, hour: i64) -> BlockMeta {
    let start = START_NS + hour * 3_600_000_000_000;
    BlockMeta {
        id: env.new_id(),
        writer,
        tenant: TenantId::new("t").expect("valid"),
        level: 0,
        window: TimeRange::new(start, start + 3_600_000_000_000),
        min_ts: start,
        max_ts: start + 1_000,
        rows: 10,
        raw_bytes: 1_000,
        size: 5,
        streams: 1,
        pages: 1,
        footer_offset: 2,
        footer_len: 3,
        deletes_through: 0,
    }
}

pub fn add(meta: &BlockMeta) -> Edit {
    Edit::AddBlock(meta.clone())
}

pub async fn register(catalog: &Catalog, incarnation: Id) -> Result<Arc<Snapshot>, CommitError> {
    let (address, host, wal) = (String::new(), "test".to_owned(), WalKind::Bucket);
    catalog.register(Registration { incarnation, address, host, wal }).await
}
