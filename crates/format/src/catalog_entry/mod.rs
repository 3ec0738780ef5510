//! The byte layouts of catalog entries, checkpoints, the boundary object and the member object.
//!
//! The pages `docs/formats/catalog-entry.md` and `docs/formats/checkpoint.md` describe the bytes. This
//! module only converts between bytes and values; `sandur-catalog` interprets them.
//!
//! Invariants: every object begins with a magic, a version byte and a CRC-32C of all that follows; the
//! checksum is verified before any other field is read. Hostile bytes cause a typed error, never a panic
//! and never an allocation out of proportion to the object. `decode(encode(x)) == x`.

mod backup;
mod block_meta;
mod boundary;
mod checkpoint;
mod delete_request;
mod entry;
mod forms;
mod frame;
mod log_chain;
mod member;
mod node_description;
mod wire;
mod write_place;

pub use backup::{BACKUP_RULES_MAX, BACKUP_WAL_MAX, BackupManifest, BackupMark, RuleCopy, WalCopy};
pub use block_meta::{BlockMeta, BlockName, day_of, day_text};
pub use boundary::Boundary;
pub use checkpoint::{
    CheckpointRoot, PART_ROWS_MAX, PartRef, PartRow, Session, Verdict, Writer, decode_part, encode_part,
};
pub use delete_request::{
    DELETE_QUERY_BYTES_MAX, DeleteProgress, DeleteRecord, DeleteRequest, TenantDeletes,
};
pub use entry::{ENTRY_BYTES_MAX, Edit, Entry, Precondition, TRANSACTIONS_MAX, Transaction, WalKind};
pub use forms::{BlockForms, EDITS_NEWEST, EDITS_OF_NODES, EDITS_OF_RULES, EDITS_UNSTATED};
pub use log_chain::{CHAIN_LENGTH_MAX, LogChain, LogPosition, entry_checksum};
pub use member::Member;
pub use node_description::{NODE_TEXT_BYTES_MAX, NodeDescription, NodePhase};
pub use write_place::WritePlace;
