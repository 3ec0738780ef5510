//! The surroundings of a process: clock, randomness, tasks, CPU threads, shutdown, and the size of the
//! machine.
//!
//! **What it is.** The only crate that reads its surroundings. A component reaches the wall clock, the
//! monotonic clock, sleep, random numbers, tasks and CPU threads through an [`Env`]. `clippy.toml` bans
//! the corresponding standard functions everywhere else, so that a complete node can run under a seeded
//! simulation.
//!
//! **What it is not.** It contains no code for logs, stores or protocols. Its only I/O is reading the size
//! of the machine ([`machine`]) and environment variables ([`environment`]).
//!
//! **Life of a call.** `main` makes one `Env` with `Env::system`, and every component holds a clone.
//! `env.spawn(name, future)` returns a [`Task`] that aborts its future when it is dropped, so no task
//! outlives its owner. `env.run_cpu(Lane::Query, job)` runs a closure on the CPU pool and awaits its
//! result. A request that must wait for memory reserves it in a [`FairBudget`].
//!
//! **Invariants.** A simulated `Env` never reads a real clock or a real random source. Dropping a `Task`
//! aborts it.

mod backoff;
mod cpu;
mod env;
pub mod environment;
mod fair_budget;
mod keyed_turns;
pub mod machine;
mod pace;
mod shutdown;
pub mod single_flight;
mod task;

pub use backoff::{Backoff, Pauses};
pub use cpu::{CpuPool, Lane};
pub use env::Env;
pub use fair_budget::{FairBudget, FairReservation, Party, Patience, Short};
pub use keyed_turns::{KEY_BYTES, KeyedTurns, Place};
pub use pace::Pace;
pub use shutdown::{Shutdown, ShutdownSignal};
pub use task::{Task, TaskError};
