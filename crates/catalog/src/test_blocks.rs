//! Blocks for the unit tests.

use sandur_base::Id;
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Dataset, TenantId, TimeRange};

/// The writer of all test blocks.
pub(crate) const WRITER: Id = Id(1_000);

/// Returns a block in one hour since the epoch.
pub(crate) fn block(id: u128, tenant: &str, hour: i64) -> BlockMeta {
    let start = hour * 3_600_000_000_000;
    BlockMeta {
        id: Id(id),
        writer: WRITER,
        dataset: Dataset::logs(TenantId::new(tenant).expect("a valid tenant")),
        level: 0,
        window: TimeRange::new(start, start + 3_600_000_000_000),
        min_ts: start + 10,
        max_ts: start + 20,
        rows: 100,
        raw_bytes: 1_000,
        size: 300,
        streams: 2,
        pages: 1,
        footer_offset: 200,
        footer_len: 100,
        deletes_through: 0,
        place: 0,
    }
}
