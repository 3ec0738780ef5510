//! Where the server meets the other crates' entry points: decoders and the query language.
//!
//! Handlers name nothing of those crates but what stands here, so that a change of an entry point is
//! a change of this file.

use sandur_base::units::parse_duration;
use sandur_model::{Limits, LogPage, Matcher};
use sandur_query::{Direction, LogRow, QueryContext, QueryResult, Source};

use std::net::SocketAddr;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use sandur_base::Env;

use crate::cli::Failed;
use crate::config::Settings;
use crate::http::{Failure, Intake};
use crate::memory::Shares;

/// An engine that is ready, as the server uses it.
pub struct Opened {
    /// Where rows come from.
    pub source: Arc<dyn Source>,
    /// Where rows go.
    pub intake: Arc<dyn Intake>,
    /// Metrics of the crates below.
    pub registry: Registry,
    /// What an acknowledgement means here, for people.
    pub durability: String,
}

/// Opens the store and the engine.
pub async fn open(
    _env: &Env,
    _settings: &Settings,
    _shares: &Shares,
    _address: SocketAddr,
) -> Result<Opened, Failed> {
    Err(Failed::new("the engine is not wired yet"))
}

/// A query as it was asked.
#[derive(Clone, Debug)]
pub struct QueryText {
    /// Its text.
    pub query: String,
    /// Instant or range.
    pub kind: QueryKind,
    /// Most entries of a log query.
    pub limit: u32,
    /// Which entries count first.
    pub direction: Direction,
    /// Least distance of entries in nanoseconds; 0: all.
    pub interval_ns: i64,
}

/// When a query looks.
#[derive(Clone, Copy, Debug)]
pub enum QueryKind {
    /// At one instant.
    Instant {
        /// Nanoseconds since the epoch.
        time_ns: i64,
    },
    /// At every step of a range.
    Range {
        /// First instant.
        start_ns: i64,
        /// Last instant of a metric query, first instant after a log query.
        end_ns: i64,
        /// Distance of points.
        step_ns: i64,
    },
}

/// Runs a query.
pub async fn query(
    _source: &dyn Source,
    _context: &QueryContext,
    _limits: &Limits,
    _request: QueryText,
) -> Result<QueryResult, Failure> {
    Err(Failure::invalid("queries are not wired yet"))
}

/// The matchers of a selector.
pub fn parse_selector(_text: &str) -> Result<Vec<Matcher>, Failure> {
    Err(Failure::invalid("selectors are not wired yet"))
}

/// A log query that can be run over pages as they come.
pub struct LineQuery;

impl LineQuery {
    /// Conditions on streams.
    pub fn matchers(&self) -> Vec<Matcher> {
        Vec::new()
    }

    /// Appends the rows of the page that pass.
    pub fn process(&mut self, _page: &LogPage, _rows: &mut Vec<LogRow>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Compiles a log query for a follower.
pub fn compile_log_query(_text: &str) -> Result<LineQuery, Failure> {
    Err(Failure::invalid("tail is not wired yet"))
}

/// A query in its canonical form.
pub fn format_query(_text: &str) -> Result<String, Failure> {
    Err(Failure::invalid("formatting is not wired yet"))
}

/// Whether the text is a duration.
pub fn is_duration(text: &str) -> bool {
    parse_duration(text).is_ok()
}
