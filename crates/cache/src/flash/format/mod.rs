//! The bytes on the device, as docs/formats/cache-segment.md describes them. No I/O.
//!
//! Invariants: a decoder accepts any bytes and never panics; a checksum covers everything that it returns.

mod bytes;
mod journal;
mod record;
mod root;
mod segment;
mod tenants;

pub use bytes::{KEY_BYTES_MAX, RECORD_BYTES_MAX, SEQUENCE_MAX, UNIT, checksum_with, units};
pub(in crate::flash) use bytes::{bytes_at, put, u32_at, u64_at};
pub use journal::{ENTRIES_PER_BLOCK, JournalBlock, JournalEntry, JournalKind};
pub use record::{Kind, LargeValue, Marks, NewHeader, PIECE_KEY_BYTES, RecordView, Sums};
pub use record::{piece_key, record_bytes, write_record};
pub use root::{Root, is_root};
pub use segment::{Class, Row, SegmentHead, TENANT_BITS, Trailer, footer_bytes, tenants_of};
pub use tenants::TenantUnits;
