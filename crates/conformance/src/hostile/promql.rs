//! The parser of PromQL: a query that it accepts is the same after it is written and parsed again, and
//! everything that is done with a query needs only a small stack.

use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::{Labels, TenantId};
use sandur_promql::{Options, Request, Times, parse, pretty, query, to_json};
use sandur_query::{MemorySeries, QueryContext};
use sandur_runtime::Env;

use super::whole::on_a_small_stack;

/// Longest text in bytes that is parsed again after it was written.
const REREAD_BYTES_MAX: usize = 16 << 10;
/// Memory budget of a query in bytes.
const MEMORY_BYTES: u64 = 64 << 20;
/// Number of samples that a query may load. Every useful query on [`source`] needs fewer.
const SAMPLES_MAX: u64 = 100_000;
/// Deadline of a query.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The input is the text of a query.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // An error is a valid outcome.
    on_a_small_stack(|| _ = reread(text), || {});
}

/// Parses a query, writes it, and parses the written text. Returns the first error.
///
/// # Panics
/// If the text that is written parses to a different query.
pub fn reread(text: &str) -> Result<(), String> {
    let expr = parse(text).map_err(|e| e.to_string())?;
    let written = expr.to_string();
    let laid_out = pretty(&expr).map_err(|e| e.to_string())?;
    for again in [&written, &laid_out] {
        // The written text is longer than the original, so it may exceed the limit of a query.
        if again.len() < REREAD_BYTES_MAX {
            let other = parse(again);
            let other = other.unwrap_or_else(|e| panic!("{text:.200} was written as {again:.200}: {e}"));
            assert_eq!(other.to_string(), written, "from {text:.200}");
        }
    }
    to_json(&expr).map_err(|e| e.to_string())?;
    drop(expr.clone());
    Ok(())
}

/// Returns a source with the series `a{x="1"}` and `b{x="1"}`, each with two samples.
pub fn source() -> MemorySeries {
    let mut store = MemorySeries::default();
    for labels in [[("__name__", "a"), ("x", "1")], [("__name__", "b"), ("x", "1")]] {
        store.edit(&Labels::from_pairs(labels), |samples| {
            samples.times.extend([0, 60_000]);
            samples.values.extend([1.0, 2.0]);
        });
    }
    store
}

/// Parses, writes and evaluates a query. Returns the first error.
///
/// # Panics
/// If the text that is written parses to a different query, or if memory is not released.
pub fn everything(source: &MemorySeries, text: &str) -> Result<(), String> {
    reread(text)?;
    let (env, budget) = (Env::simulated(1, 0), MemoryBudget::root("query", MEMORY_BYTES));
    let context = QueryContext::new(env, TenantId::default_tenant(), budget.clone(), TIMEOUT);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(|e| e.to_string())?;
    let options = Options { samples_max: SAMPLES_MAX, ..Options::default() };
    let times = Times { start: 60_000, end: 120_000, step: 60_000 };
    let request = Request { query: text.to_owned(), times, options };
    let answer = runtime.block_on(query(source, &context, &request)).map(drop);
    assert_eq!(budget.used(), 0, "memory is released after {text:.200}");
    answer.map_err(|e| e.to_string())
}
