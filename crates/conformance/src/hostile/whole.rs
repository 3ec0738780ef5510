//! All that is done with a query, from its text to its answer and back to a text, on a thread with little
//! stack: what grows with the input in any of it is found here.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::{Env, MemoryBudget};
use sandur_logql::{Expr, Kind, Request, parse, pretty};
use sandur_model::{Labels, Level, Limits, TenantId};
use sandur_query::{Direction, Error, MemoryRow, MemorySource, QueryContext, QueryResult};

/// A quarter of what a thread of a test has, which is the least of all. The address sanitizer of the fuzzer
/// makes frames several times as large.
const STACK_BYTES: usize = if cfg!(fuzzing) { 4 << 20 } else { 512 << 10 };

/// Longest text of a query that is read again after it was written.
const REREAD_BYTES_MAX: usize = 16 << 10;

/// Memory of a query.
const MEMORY_BYTES: u64 = 64 << 20;

/// Time of a query that nobody cancels.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Runs work on a thread with a small stack, and `meanwhile` on this one; panics when the work does.
pub fn on_a_small_stack(work: impl FnOnce() + Send, meanwhile: impl FnOnce()) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let thread = thread.unwrap_or_else(|error| panic!("no thread: {error}"));
        meanwhile();
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// A stream `{app="a"}` with these lines.
pub fn source(lines: &[&[u8]]) -> MemorySource {
    let row = |(n, line): (usize, &&[u8])| MemoryRow {
        labels: Arc::new(Labels::from_pairs([("app", "a")])),
        timestamp: n as i64 + 1,
        line: line.to_vec().into(),
        metadata: Vec::new(),
        level: Level::Info,
    };
    MemorySource::new(lines.iter().enumerate().map(row).collect())
}

/// A query of its own; whoever has it may cancel it.
pub fn context() -> QueryContext {
    let (env, budget) = (Env::simulated(1, 0), MemoryBudget::root("query", MEMORY_BYTES));
    QueryContext::new(env, TenantId::default_tenant(), budget, TIMEOUT)
}

/// Reads, writes, copies and evaluates a query; the first error.
///
/// # Panics
/// When a query is read differently after it was written.
pub fn everything(source: &MemorySource, context: &QueryContext, query: &str) -> Result<(), String> {
    let expr = context.compute_here(|| Ok(parse(query))).map_err(|e| e.to_string())?;
    let expr = expr.map_err(|e| e.to_string())?;
    let written = expr.to_string();
    let laid_out = pretty(&expr);
    for text in [&written, &laid_out] {
        // What is written is longer than what was read, so it may be longer than a query may be; and reading
        // takes most of the time of this.
        if text.len() < REREAD_BYTES_MAX {
            let again =
                parse(text).unwrap_or_else(|e| panic!("{query:.200} was written as {text:.200}: {e}"));
            assert_eq!(again.to_string(), written);
        }
    }
    drop(expr.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    runtime.block_on(evaluate(source, context, &expr)).map(drop).map_err(|e| e.to_string())
}

async fn evaluate(source: &MemorySource, context: &QueryContext, expr: &Expr) -> Result<QueryResult, Error> {
    let kind = match expr {
        Expr::Metric(_) => Kind::Instant { time_ns: 1_000 },
        Expr::Log(_) => Kind::Range { start_ns: 0, end_ns: 1_000_000_000, step_ns: 1 },
    };
    let direction = Direction::Forward;
    let request = Request { query: String::new(), kind, limit: 10, direction, interval_ns: 0 };
    sandur_logql::query_parsed(source, context, &Limits::default(), expr, &request).await
}
