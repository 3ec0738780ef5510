//! Services that every other crate uses: time, randomness, tasks, the CPU pool, memory budgets,
//! shutdown, units, ids and error kinds.
//!
//! **What it is.** The only crate that reads its surroundings. A component reaches the wall clock, the
//! monotonic clock, sleep, random numbers, tasks and CPU threads through an [`Env`]. `clippy.toml` bans
//! the corresponding standard functions everywhere else, so that a complete node can run under a seeded
//! simulation.
//!
//! **What it is not.** It contains no code for logs, stores or protocols, with one exception: it
//! recognises the start of an HTTP request ([`begins_http_request`]). Its only I/O is reading the size
//! of the machine ([`machine`]), environment variables ([`environment`]) and small files
//! ([`small_file`]).
//!
//! **Life of a call.** `main` makes one `Env` with `Env::system`, and every component holds a clone.
//! `env.spawn(name, future)` returns a [`Task`] that aborts its future when it is dropped, so no task
//! outlives its owner. `env.run_cpu(Lane::Query, job)` runs a closure on the CPU pool and awaits its
//! result. Loops inside such a job report their work to [`job`], which stops the job when its result is
//! no longer needed. [`MemoryBudget::reserve`] reserves the memory of a query before the query uses it;
//! dropping the [`Reservation`] releases it. Syntax trees are linked by [`nesting::Nested`], which
//! bounds their height, so that no input can overflow the stack of a recursive walk.
//!
//! **Memory.** There is one kind of reservation, bytes of a [`MemoryBudget`]; the other types use it:
//!
//! | type | use |
//! |---|---|
//! | [`MemoryBudget`], [`Reservation`] | bytes reserved before they are used; the budget refuses at once |
//! | [`FairBudget`], [`FairReservation`] | requests wait; fair to tenants and addresses |
//! | [`job::JobMemory`] | bytes that the running job reserves in the budget of its owner |
//! | [`account::Account`] | no reservation: measures the bytes that work allocated |
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
//! **Invariants.** A simulated `Env` never reads a real clock or a real random source. A reservation
//! never exceeds its budget or an ancestor of its budget, except for memory that is allocated already
//! ([`Reservation::resize_anyway`]). Dropping a `Task` aborts it.

pub mod account;
mod address;
mod backoff;
mod budget;
mod cpu;
mod env;
pub mod environment;
mod error;
mod fair_budget;
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
mod turns;
pub mod units;

pub use address::party_of;
pub use backoff::{Backoff, Pauses};
pub use budget::{MemoryBudget, OverBudget, Reservation};
pub use cpu::{CpuPool, Lane};
pub use env::Env;
pub use error::ErrorKind;
pub use fair_budget::{FairBudget, FairReservation, Party, Patience, Short};
pub use http_request::begins_http_request;
pub use id::Id;
pub use job::Stopped;
pub use keyed_turns::{KEY_BYTES, KeyedTurns, Place};
pub use lru_map::LruMap;
pub use python_config::{ConfigOption, Malformed, PythonConfig, Section};
pub use shutdown::{Shutdown, ShutdownSignal};
pub use task::{Task, TaskError};
pub use turns::Turns;

/// A boxed future that can cross threads: the return type of async methods in object-safe traits.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
