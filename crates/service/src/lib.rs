//! Queries and writes as services, without HTTP.
//!
//! **What it is.** The one way into a server's data. [`Queries`] runs queries of LogQL ([`logql`]), PromQL
//! ([`promql`]) and Graphite ([`graphite`]): it applies the tenant's limits and policies, waits for its turn,
//! splits ranges, reuses kept steps, hides what was deleted, and writes the log of queries. [`Writes`] stores
//! lines and samples of every protocol within the limits and rates of their tenant. HTTP, gRPC, carbon's
//! listeners, scrapes, the relay and the commands of this binary all go through them.
//!
//! **What it is not.** No protocol: it reads no request and writes no answer of any, and it names no type of
//! an HTTP library. It is no storage either: rows come from the sources and go to the [`Intake`] that it is
//! given.
//!
//! **Life of a query.** A protocol says who asks ([`Caller`]) and what ([`promql::PromqlRequest`]), and
//! begins the query, which gets its context and its line in the log. `run` parses, checks the policies of the
//! tenant and evaluates; the protocol writes the answer and ends the log line with its size. A query that is
//! dropped, because its client went away, is cancelled and logged as such.
//!
//! **Life of a push.** See [`writes`].

mod caller;
mod cost;
mod deletes;
mod failure;
mod followers;
pub mod graphite;
mod intake;
pub mod logql;
mod metrics;
mod pressure;
pub mod promql;
mod queries;
pub mod query_log;
mod query_memory;
mod refusal_log;
mod running;
mod visible;
pub mod writes;

pub use caller::{AnsweredBy, Caller};
pub use cost::{Cost, ResultCache};
pub use deletes::{DeleteShown, Deletes, no_such_delete};
pub use failure::{Failure, status_of};
pub use followers::{Followers, Following};
pub use intake::{BlockShown, Intake};
pub use metrics::{QueryMetrics, WriteMetrics};
pub use pressure::Pressure;
pub use queries::{LimitsOf, Queries, QueryOptions, QueryParts, RulesNow};
pub use query_memory::QueryMemory;
pub use refusal_log::RefusalLog;
pub use running::RunningQueries;
pub use visible::Visible;
pub use writes::{WriteParts, Writes};
