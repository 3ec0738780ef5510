//! Cache policies: eviction in RAM, admission to flash, reclaim of segments, and counts of evictions.
//!
//! * [`S3Fifo`] holds the entries of one shard of the RAM tier and chooses which are evicted.
//! * [`RecentReads`] decides which values read from flash get a copy in RAM.
//! * [`Admission`] decides whether a value may be written to flash, with the reason if not.
//! * [`reclaim`] decides which segment of flash is reclaimed next and which are spared; [`Reinsertion`]
//!   decides which of its records are written again.
//! * [`Churn`] counts evictions, above all of values that were never read.
//!
//! All code here is synchronous and uses neither a clock nor its own randomness: times and seeds are
//! arguments. The simulator runs the same code.

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
