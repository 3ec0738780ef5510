//! Seeded simulation of whole nodes over a store that fails.
//!
//! **What it is.** Several engines, with all their background tasks, run in one thread on a paused clock
//! over one [`sandur_store::fault::FaultStore`]. A seed decides everything: latencies, faults, who
//! writes what when, who is killed, paused or cut off. Writers note what was acknowledged; afterwards
//! the faults end, the dead are adopted, and every row is counted. One seed run twice gives the same
//! trace, so a failure is repeated with `cargo xtask sim --seed N`.
//!
//! **What it is not.** It is not a test of the operating system's file layer (the process tests of
//! `server` are), and it knows nothing of protocols or query languages.
//!
//! **Life of a run.** [`run`] builds the runtime and the world, starts [`scenario::Scenario`], lets its
//! actors work for some simulated minutes, then quiets the faults and checks the invariants of
//! [`oracle::Oracle`], [`corrections::Corrections`] and [`rolled::OldPoints`]; a violated one is an error
//! that names the seed.

mod corrections;
mod damage;
mod damage_base;
mod node;
mod oracle;
mod rolled;
mod row;
mod scenario;

pub use damage::{Tally, run_damage};
pub use scenario::{Outcome, run};
