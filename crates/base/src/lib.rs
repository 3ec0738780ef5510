//! The ground that every other crate stands on: time, randomness, tasks, the CPU pool, memory
//! budgets, shutdown, units, ids and error kinds.
//!
//! **What it is.** The only place in the workspace that touches ambient authority. Everything
//! that depends on the world around the process goes through an [`Env`]: the wall clock, the
//! monotonic clock, sleeping, random numbers, spawning, and CPU work. `clippy.toml` bans the
//! ambient functions everywhere else, so a whole node can run under a seeded simulation.
//!
//! **What it is not.** It knows nothing of logs, stores or protocols, but how an HTTP request begins
//! ([`begins_http_request`]), and it does no I/O beyond reading the machine's size ([`machine`]) and
//! environment variables ([`environment`]).
//!
//! **Life of a call.** `Env::system` is made once in `main`; every component gets a clone.
//! `env.spawn(name, future)` returns a [`Task`], which aborts its future when dropped, so that
//! no task outlives its owner. `env.run_cpu(Lane::Query, job)` moves a closure to the CPU pool
//! and awaits its result; code deep inside of it tells [`job`] of its work, which ends it when
//! it is not needed any more. Memory for a query is taken with [`MemoryBudget::reserve`] before it
//! is used, and given back when the [`Reservation`] is dropped. Syntax trees are linked by
//! [`nesting::Nested`], so that no input decides how much stack a walk over one takes.
//!
//! **Example.**
//!
//! ```
//! use sandur_base::MemoryBudget;
//!
//! let node = MemoryBudget::root("queries", 100);
//! let query = node.child("query", 60);
//! let held = query.reserve(50).expect("60 are allowed");
//! assert!(query.reserve(11).is_err(), "the budget is checked before the memory is used");
//! assert_eq!(node.used(), 50);
//! drop(held);
//! assert_eq!(node.used(), 0);
//! ```
//!
//! **Invariants.** A simulated `Env` never reads a real clock or a real random source. A
//! reservation never exceeds its budget nor the budget's ancestors. Dropping a `Task` ends it.

pub mod account;
mod address;
mod backoff;
mod budget;
mod cpu;
mod env;
pub mod environment;
mod error;
mod fair_memory;
mod http_request;
mod id;
pub mod job;
mod keyed_turns;
mod lru_map;
pub mod machine;
pub mod nesting;
mod python_config;
mod shutdown;
pub mod single_flight;
pub mod small_file;
pub mod spelling;
mod task;
pub mod units;

pub use address::party_of;
pub use backoff::{Backoff, Pauses};
pub use budget::{MemoryBudget, OverBudget, Reservation};
pub use cpu::{CpuPool, Lane};
pub use env::Env;
pub use error::ErrorKind;
pub use fair_memory::{Claim, FairMemory, Party, Patience, Short};
pub use http_request::begins_http_request;
pub use id::Id;
pub use job::Stopped;
pub use keyed_turns::{KEY_BYTES, KeyedTurns, Place};
pub use lru_map::LruMap;
pub use python_config::{ConfigOption, Malformed, PythonConfig, Section};
pub use shutdown::{Shutdown, ShutdownSignal};
pub use task::{Task, TaskError};

/// A boxed future that can cross threads: the return type of async methods in object-safe traits.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
