//! Cache policy: eviction in RAM, admission to flash, reclaim of segments, and counts of evictions.
//!
//! * [`S3Fifo`] holds the entries of one shard of the RAM tier and says which must leave.
//! * [`RecentReads`] says which reads of flash are worth a copy in RAM.
//! * [`Admission`] says whether a value may be written to flash, and if not, why.
//! * [`reclaim`] says which segment of flash goes next and which are spared once more; [`Reinsertion`]
//!   says which records of it are written again.
//! * [`Churn`] counts what was evicted, and above all what was evicted unread.
//!
//! Everything here is synchronous, knows no clock and draws no randomness of its own: times and seeds
//! are arguments. The simulator runs this very code.

mod admission;
mod churn;
pub(crate) mod ghost;
mod miss_rate;
mod recent_reads;
pub mod reclaim;
mod reinsertion;
mod s3fifo;
mod scan_reuse;
pub mod slab;
pub mod table;
mod tenant_share;
mod write_budget;

pub use admission::{Admission, AdmissionOptions, Candidate, Occasion, Refusal, Verdict};
pub use churn::{Age, Amount, Churn, ChurnRow, ChurnTotal, Class, Eviction, Source, TENANTS_MAX};
pub use recent_reads::RecentReads;
pub use reinsertion::{RecordFacts, Reinsertion, WRITE_AMPLIFICATION_MAX};
pub use s3fifo::{Evicted, LookupStep, NewEntry, Place, Rank, S3Fifo, SECOND_CHANCES_MAX};
pub use tenant_share::TenantCaps;
