//! PromQL: Prometheus's query language over series of samples.
//!
//! **What it is.** Parser, planner, operators and functions, native histograms and everything that Prometheus
//! calls experimental included. Text becomes a syntax tree ([`Expr`]); a tree is planned for the steps of a
//! query into operators; these pull series in batches from a [`sandur_query::SampleSource`], and the answer
//! is series, with warnings and infos in Prometheus's words and places.
//!
//! **What it is not.** It knows no store, no block and no wire format, and holds no data beyond a query.
//!
//! **Life of a query.** [`query`] parses the text (`lexer`, `parser`, `check`) and plans it (`plan`): times,
//! offsets, `@` and subqueries are settled, and what is the same at all steps will be evaluated once.
//! Operators (`ops`) compute over batches of at most 512 series, a column of steps for each; a selector that
//! has nothing left says which batch it needs, the shell (`engine`) fetches it while the one before is
//! computed. Aggregations keep groups, not series, and ask storage only for the labels that they group by.
//! Labels are numbers in a pool (`labels`) until the answer is made. Names of metrics go at the end of the
//! query, where all operators below agreed that they go.
//!
//! ```
//! use std::time::Duration;
//! use sandur_base::{Env, MemoryBudget};
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
//! **How to add.** A function is a line in `functions::FUNCTIONS` and a function in a file of its family;
//! parser, evaluation and documentation are made from the table.
//!
//! **Invariants.** An operator gives each set of labels once, but below an aggregation that asked for a part
//! of the labels. Floats are added in the order and with the compensation of Prometheus, so that answers
//! agree to the bit. What an operator keeps is reserved before; every loop over data tells of its work.

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
mod per_series;
mod plan;
mod pretty;
mod print;
mod reach;
mod reference;
mod run;
mod sets;
mod span;
mod text;
mod token;

pub use ast::{At, Expr, Extension, Type};
pub use engine::{Answer, Point, Request, Series, Value, query, query_parsed};
pub use error::ParseError;
pub use forms::{Form, forms};
pub use functions::buckets::almost_equal;
pub use functions::{FUNCTIONS, Function};
pub use json::to_json;
pub use lengths::check_times;
pub use mistake::{function_names, mistake};
pub use parser::{parse, parse_metric, parse_selector};
pub use plan::Times;
pub use pretty::pretty;
pub use reach::windows;
pub use reference::reference;
pub use run::Options;
pub use span::{Place, Span};
pub use text::{parse_duration, parse_number, unquote};
