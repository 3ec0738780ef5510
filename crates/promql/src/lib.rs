//! PromQL: Prometheus's query language over series of samples.
//!
//! **What it is.** Parser, planner, operators and functions, including native histograms and everything
//! that Prometheus calls experimental. The text of a query becomes a syntax tree ([`Expr`]). The planner
//! turns the tree into operators for the steps of the query. The operators pull series in batches from a
//! [`sandur_query::SampleSource`]. The answer is series, with warnings and infos in Prometheus's words
//! and places.
//!
//! **What it is not.** It has no access to stores, blocks or wire formats, and keeps no data after a
//! query.
//!
//! **Life of a query.** [`query`] parses the text (`lexer`, `parser`, `check`) and plans it (`plan`): the
//! planner resolves times, offsets, `@` and subqueries, and marks expressions that are the same at all
//! steps, which are evaluated once. Operators (`ops`) compute over batches of at most 512 series; each
//! series is a column with a slot for each step. A selector that runs out of series names the batch that
//! it needs, and the shell (`engine`) fetches that batch while operators compute the previous one.
//! Aggregations keep groups, not series, and request from storage only the labels that they group by.
//! Labels are numbers in a pool (`labels`) until the answer is made. Metric names are dropped at the end
//! of the query, for series that all operators marked.
//!
//! ```
//! use std::time::Duration;
//! use sandur_memory::MemoryBudget;
//! use sandur_runtime::Env;
//! use sandur_model::{Labels, TenantId};
//! use sandur_promql::{Options, Point, Request, Times, Value, query};
//! use sandur_query::{MemorySeries, QueryContext};
//!
//! let mut source = MemorySeries::default();
//! for instance in ["a", "b"] {
//!     let labels = Labels::from_pairs([("__name__", "requests_total"), ("instance", instance)]);
//!     source.edit(&labels, |samples| {
//!         for minute in 0..=10 {
//!             samples.times.push(minute * 60_000);
//!             samples.values.push(minute as f64 * 30.0);
//!         }
//!     });
//! }
//! let budget = MemoryBudget::root("query", 64 << 20);
//! let context = QueryContext::new(
//!     Env::simulated(1, 0), TenantId::default_tenant(), budget, Duration::from_secs(60),
//! );
//! let request = Request {
//!     query: "sum(rate(requests_total[5m]))".to_owned(),
//!     times: Times { start: 600_000, end: 600_000, step: 0 },
//!     options: Options::default(),
//! };
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let answer = query(&source, &context, &request).await.unwrap();
//! let Value::Vector(series) = &answer.value else { panic!("an instant query answers with a vector") };
//! assert_eq!(series[0].1, Point::Float(1.0), "30 requests in a minute of each instance");
//! # });
//! ```
//!
//! **How to add.** A function is a line in `functions::FUNCTIONS` and a Rust function in the file of its
//! family. The parser, the evaluation and the documentation are made from the table.
//!
//! **Invariants.** An operator yields each label set once, except below an aggregation that requested only
//! some labels. Sums over series are exact, so that they do not depend on the order of the series; floats
//! of one series are added in Prometheus's order and with its compensation. An operator reserves memory
//! before it keeps data. Every loop over data reports its work.

mod answer;
pub mod ast;
mod check;
mod column;
mod engine;
mod error;
mod forms;
mod found;
mod functions;
mod held_text;
mod json;
mod labels;
mod lengths;
mod lexer;
mod mistake;
mod names;
mod notes;
mod ops;
mod order;
mod parser;
pub mod partial;
mod places;
mod plan;
mod pretty;
mod print;
mod reach;
mod reference;
mod run;
pub mod series_text;
mod sets;
mod span;
#[cfg(test)]
mod tests;
mod text;
mod timing;
mod token;
mod value_type;

pub use answer::{Answer, Point, Series, Value};
pub use ast::{At, Expr};
pub use engine::{Request, query, query_parsed};
pub use error::ParseError;
pub use forms::{Form, forms};
pub use functions::buckets::almost_equal;
pub use functions::{FUNCTIONS, Function};
pub use json::to_json;
pub use lengths::check_times;
pub use mistake::{function_names, mistake};
pub use parser::{parse, parse_metric, parse_selector};
pub use pretty::pretty;
pub use reach::windows;
pub use reference::reference;
pub use run::Options;
pub use span::{Place, Span};
pub use text::{parse_duration, parse_number, unquote};
pub use timing::{Extension, Times};
pub use value_type::Type;
