//! Queries and writes as services, without HTTP.
//!
//! **What it is.** The only interface to a server's data. [`Queries`] runs queries of LogQL ([`logql`]),
//! PromQL ([`promql`]) and Graphite ([`graphite`]): it applies the limits and policies of the tenant, queues
//! the query, splits its time range, uses the step cache, hides what the tenant may not see, and writes the
//! log of queries. [`Writes`] stores lines and samples of every protocol within the limits and rates of their
//! tenant. HTTP, gRPC, carbon's listeners, scrapes, the relay and the commands of this binary all use them.
//!
//! **What it is not.** It is not a protocol: it parses no requests, formats no answers, and uses no type of
//! an HTTP library. It is not storage: it reads rows from the given sources and passes batches to the given
//! [`Intake`].
//!
//! **Life of a query.** A protocol begins a query with its client ([`Caller`]), its text and its times (for
//! example [`promql::PromqlRequest`]). The query gets a context and a line in the log of queries. `run`
//! parses the query, checks the policies of the tenant and evaluates. The protocol writes the answer and
//! completes the log line with its size. If the client disconnects, the query is dropped, which cancels it
//! and logs that.
//!
//! **Life of a push.** See [`writes`].

mod caller;
mod cost;
mod deletes;
mod failure;
mod followers;
pub mod graphite;
pub mod ingest_totals;
mod intake;
pub mod logql;
mod metrics;
mod nodes;
mod other_processes;
mod pressure;
pub mod promql;
mod queries;
pub mod query_log;
mod query_memory;
mod query_text;
mod refusal_log;
mod running;
mod visible;
pub mod writes;

pub use caller::{AnsweredBy, Caller};
pub use cost::{Cost, ResultCache};
pub use deletes::{DeleteShown, Deletes, no_such_delete};
pub use failure::{Failure, reason_of, status_of};
pub use followers::{Followers, Following};
pub use intake::{BlockShown, Intake};
pub use metrics::{QueryMetrics, WriteMetrics};
pub use nodes::{ClusterShown, NodeShown, UsageShown};
pub use other_processes::{
    AnswerRoom, EndedQuery, FoundQuery, ListedQueries, NO_MEMORY, NotEnded, OtherProcesses, PROCESSES_MAX,
    ProcessName, QueryId, RunningEverywhere, RunningQuery, Unanswered, end_anywhere, running_everywhere,
    usage_everywhere,
};
pub use pressure::Pressure;
pub use queries::{LimitsOf, Queries, QueryOptions, QueryParts, RulesNow};
pub use query_memory::QueryMemory;
pub use query_text::on_text;
pub use refusal_log::RefusalLog;
pub use running::RunningQueries;
pub use visible::Visible;
pub use writes::{WriteParts, Writes};
