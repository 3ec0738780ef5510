//! Several processes of the real binary on one bucket, under a seeded plan of faults, and a judge of
//! every answer.
//!
//! **What it is.** [`run`] starts nodes on a real S3 server. Each reaches the bucket and the other nodes
//! only through proxies of this crate ([`proxies`]), which can close, stall or slow down each direction
//! between two of them ([`links`]). A seed draws the faults ([`plan`]): kills, pauses, stops, wrong clocks,
//! and cut or slow connections, of nodes and of zones. Meanwhile writers push rows of all signals to
//! random nodes, and repeat a push on other nodes until it is acknowledged ([`traffic`]), and watchers
//! query all nodes ([`watching`]).
//!
//! **What it is not.** It is not part of the product, and not a measurement of speed: the longest waits
//! in its table are those of a busy machine. It is not deterministic: a seed repeats the plan, not the
//! moments at which the kernel runs a process. Simulation is in `sim`.
//!
//! **What is judged.** An answer without a warning contains every row that was acknowledged
//! [`ledger::PERMITTED_AGE`] before the query began, or before the query began if it asks for that, and
//! no row twice ([`ledger`]). After the plan every node finds every acknowledged row exactly once, the
//! processes stop cleanly, and `sandur check` says that the store is sound.
//!
//! **Invariants.** No process outlives its run. Everything listens on loopback. The folder of a run
//! without findings is removed; that of a run with findings is kept and named.

mod callers;
mod client;
pub mod ledger;
pub mod links;
mod node;
pub mod plan;
mod proxies;
mod questions;
mod report;
mod run;
mod signals;
mod traffic;
mod watching;

pub use report::Verdict;
pub use run::{Options, run};
