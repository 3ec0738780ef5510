//! Seeded simulation of complete nodes over a store that fails.
//!
//! **What it is.** Several engines, with all their background tasks, run in one thread on a paused clock
//! over one [`sandur_store::fault::FaultStore`]. A seed determines everything: latencies, faults, what
//! writers write and when, and which node is killed, paused or cut off. Writers record what was
//! acknowledged. Afterwards the faults stop, dead writers are adopted, and every row is counted. Two
//! runs of one seed give the same trace, so `cargo xtask sim --seed N` reproduces a failure.
//!
//! **What it is not.** It does not test the operating system's file layer, which the process tests of
//! `server` do, and it has no protocols or query languages.
//!
//! **Life of a run.** [`run`] builds the runtime and the world, starts a [`scenario::Scenario`], and
//! lets its actors work for some simulated minutes. It then turns the faults off and checks the
//! invariants of [`oracle::Oracle`], [`corrections::Corrections`] and [`rolled::OldPoints`]. A violated
//! invariant is an error that names the seed. [`run_fleet`] does the same with many nodes that are wrong
//! about each other, and judges every answer when it comes.

mod backups;
mod corrections;
mod damage;
mod damage_base;
mod fleet;
mod node;
mod oracle;
mod rolled;
mod row;
mod scenario;

pub use backups::BackupCounts;
pub use damage::{Tally, run_damage};
pub use fleet::{FleetOutcome, FleetSize, run_fleet};
pub use scenario::{Outcome, run, run_backups};
