//! Runs everything that is done with a query, from its text to its answer and back to a text, on a
//! thread with a small stack, so that stack use that grows with the input is found.

use std::sync::Arc;
use std::time::Duration;

use sandur_logql::{Expr, Kind, Request, parse, pretty};
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, Level, Limits, TenantId};
use sandur_query::{Direction, Error, MemoryRow, MemorySource, QueryContext, QueryResult};
use sandur_runtime::Env;

/// A quarter of the stack of a test thread, which is the smallest stack of all. The address sanitizer of
/// the fuzzer makes stack frames several times as large.
const STACK_BYTES: usize = if cfg!(fuzzing) { 4 << 20 } else { 512 << 10 };

/// Longest text in bytes that is parsed again after it was written.
const REREAD_BYTES_MAX: usize = 16 << 10;

/// Memory budget of a query in bytes.
const MEMORY_BYTES: u64 = 64 << 20;

/// Deadline of a query that is not cancelled.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Runs `work` on a thread with a small stack, and `meanwhile` on the calling thread. Panics when `work`
/// panics.
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

/// Returns a source with one stream `{app="a"}` that has these lines.
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

/// Returns the context of one query. The caller may cancel the query with it.
pub fn context() -> QueryContext {
    let (env, budget) = (Env::simulated(1, 0), MemoryBudget::root("query", MEMORY_BYTES));
    QueryContext::new(env, TenantId::default_tenant(), budget, TIMEOUT)
}

/// Parses, writes, copies and evaluates a query. Returns the first error.
///
/// # Panics
/// If the text that is written parses to a different query.
pub fn everything(source: &MemorySource, context: &QueryContext, query: &str) -> Result<(), String> {
    let expr = context.compute_here(|| Ok(parse(query))).map_err(|e| e.to_string())?;
    let expr = expr.map_err(|e| e.to_string())?;
    let written = expr.to_string();
    let laid_out = pretty(&expr);
    for text in [&written, &laid_out] {
        // The written text is longer than the original, so it may exceed the limit of a query. And
        // parsing takes most of the time of this function.
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
