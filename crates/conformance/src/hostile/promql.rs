//! PromQL: what is read is written so that it reads the same, and everything that is done with a query needs
//! little stack.

use std::time::Duration;

use sandur_base::{Env, MemoryBudget};
use sandur_model::{Labels, TenantId};
use sandur_promql::{Options, Request, Times, parse, pretty, query, to_json};
use sandur_query::{MemorySeries, QueryContext};

use super::whole::on_a_small_stack;

/// Longest text of a query that is read again after it was written.
const REREAD_BYTES_MAX: usize = 16 << 10;
/// Memory of a query.
const MEMORY_BYTES: u64 = 64 << 20;
/// Samples that a query may load: enough for any that means something here.
const SAMPLES_MAX: u64 = 100_000;
/// Time of a query.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Takes a query text.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    // A refusal is an answer.
    on_a_small_stack(|| _ = reread(text), || {});
}

/// Reads a query, writes it, and reads that; gives the first error.
///
/// # Panics
/// When a query is read differently after it was written.
pub fn reread(text: &str) -> Result<(), String> {
    let expr = parse(text).map_err(|e| e.to_string())?;
    let written = expr.to_string();
    let laid_out = pretty(&expr).map_err(|e| e.to_string())?;
    for again in [&written, &laid_out] {
        // What is written is longer than what was read, so it may be longer than a query may be.
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

/// A series `a{x="1"}` with two samples, and one `b`.
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

/// Reads, writes and evaluates a query; the first error.
///
/// # Panics
/// When a query is read differently after it was written, or does not give its memory back.
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
    assert_eq!(budget.used(), 0, "memory is given back after {text:.200}");
    answer.map_err(|e| e.to_string())
}
