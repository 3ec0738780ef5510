//! Stores, blocks and helper functions for the catalog's tests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::memory::InMemory;
use sandur_base::Id;
use sandur_catalog::{Catalog, CatalogOptions, CommitError, LogPosition, Registration, Snapshot};
use sandur_format::block::BlockOrigin;
use sandur_format::catalog_entry::{BlockMeta, Edit, Entry, WalKind};
use sandur_format::log_block::{BlockOptions, BlockWriter};
use sandur_model::{Dataset, TenantId, TimeRange};
use sandur_runtime::Env;
use sandur_store::Store;

/// 2026-11-21, in nanoseconds since the epoch.
pub const START_NS: i64 = 1_795_219_200_000_000_000;

pub fn memory(seed: u64) -> (Env, Store) {
    let env = Env::simulated(seed, START_NS);
    let store = Store::from_object_store(Arc::new(InMemory::new()), env.clone(), Default::default());
    (env, store)
}

pub fn options() -> CatalogOptions {
    CatalogOptions { truncate_after: Duration::ZERO, ..CatalogOptions::default() }
}

pub fn block(env: &Env, writer: Id, hour: i64) -> BlockMeta {
    let start = START_NS + hour * 3_600_000_000_000;
    BlockMeta {
        id: env.new_id(),
        writer,
        dataset: Dataset::logs(TenantId::new("t").expect("valid")),
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
        place: 0,
    }
}

/// Returns the object of a block without rows, as its maker writes it, with the position in the log that
/// it had read. Sets the size in `meta` to that of the object.
pub fn object(meta: &mut BlockMeta, seen: LogPosition) -> Bytes {
    merged_object(meta, seen, Vec::new())
}

/// Like [`object`], for a block that was merged from others.
pub fn merged_object(meta: &mut BlockMeta, seen: LogPosition, inputs: Vec<Id>) -> Bytes {
    let mut options = BlockOptions::new(meta.dataset.tenant.clone(), meta.window, meta.level);
    options.origin = BlockOrigin { seen, inputs, ..BlockOrigin::default() };
    let mut bytes = Vec::new();
    BlockWriter::new(options, Vec::new()).expect("no streams").finish(&mut bytes).expect("no rows");
    let bytes = Bytes::from(bytes.concat());
    meta.size = bytes.len() as u64;
    bytes
}

/// Returns an entry as written by programs from before the chain.
pub fn version_1(entry: &Entry) -> Bytes {
    let mut bytes = entry.encode().expect("a valid entry");
    // The checksum of the entry before follows number, session and base.
    let at = 12 + 8 + 16 + 8;
    bytes.drain(at..at + 8);
    bytes[4] = 1;
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..8]), &bytes[12..]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    bytes.into()
}

pub fn add(meta: &BlockMeta) -> Edit {
    Edit::AddBlock(meta.clone())
}

pub async fn register(catalog: &Catalog, incarnation: Id) -> Result<Arc<Snapshot>, CommitError> {
    let (address, host, wal) = (String::new(), "test".to_owned(), WalKind::Bucket);
    catalog.register(Registration { incarnation, address, host, wal, node: None }).await
}
