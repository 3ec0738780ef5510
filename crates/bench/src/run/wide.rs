//! Measures a query over very many series: the memory beyond idle, and the time, for one query and for
//! many concurrent ones.
//!
//! Each server has a memory limit, a store of its own, and a number of series of one metric, with a
//! sample per minute for an hour. Blocks are merged before the first query. Memory is the kernel's
//! high-water mark, which is reset before each load. No query is repeated, so that none is answered from
//! the step cache.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_base::units::ByteSize;
use sandur_runtime::Env;

use super::alone::settle;
use super::series_client::{JOBS, counter, push, rates_path};
use super::server::Place;
use crate::http::Connection;
use crate::push_body::SampledSeries;

const MINUTES: i64 = 60;
/// The longest time to wait for an answer of one of many queries.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct Wide {
    /// The server; each number of series uses a subdirectory.
    pub place: Place,
    /// Numbers of series, each on a server of its own.
    pub series: Vec<u64>,
    /// Number of concurrent queries in the second load.
    pub at_once: u64,
}

/// The figures for one number of series.
#[derive(Clone, Copy, Debug, Default)]
pub struct WideRow {
    /// Number of series.
    pub series: u64,
    /// Resident bytes before the first query.
    pub idle: u64,
    /// Peak of resident bytes during one query.
    pub alone_peak: u64,
    /// Peak of bytes that one query reserved, from its statistics.
    pub reserved: u64,
    /// Seconds of one query: the median of several.
    pub alone_seconds: f64,
    /// Peak of resident bytes during many concurrent queries.
    pub many_peak: u64,
    /// Seconds until all of the concurrent queries were answered.
    pub many_seconds: f64,
    /// Number of concurrent queries.
    pub at_once: u64,
}

/// Runs the measurement. `report` is called with progress messages.
pub async fn wide(env: &Env, plan: &Wide, report: impl Fn(&str)) -> Result<Vec<WideRow>> {
    let mut rows = Vec::new();
    for series in &plan.series {
        let mut place = plan.place.clone();
        place.directory = plan.place.directory.join(series.to_string());
        place.down(env).await?;
        place.wipe()?;
        let row = measure(env, plan, &place, *series, &report).await;
        place.down(env).await?;
        place.wipe()?;
        rows.push(row.with_context(|| format!("{series} series"))?);
    }
    Ok(rows)
}

async fn measure(
    env: &Env,
    plan: &Wide,
    place: &Place,
    series: u64,
    report: &impl Fn(&str),
) -> Result<WideRow> {
    let process = place.up(env).await?;
    let end_ms = env.now_ns() / 1_000_000 / 60_000 * 60_000;
    report(&format!("pushing {series} series"));
    push(env, &place.address, 0..series, |number| series_of(number, end_ms))?;
    let _ = Connection::new(&place.address).post("/flush", &[], &[]);
    settle(env, process).await;
    // After a restart, a server only uses the memory that it needs to answer.
    place.down(env).await?;
    let process = place.up(env).await?;
    settle(env, process).await;
    let mut row = WideRow { series, at_once: plan.at_once, ..WideRow::default() };
    report("asking once");
    ask(&place.address, 0, end_ms)?;
    row.idle = process.reset_resident_peak()?;
    let mut seconds = Vec::new();
    for number in 1..=3 {
        let asked = env.monotonic();
        row.reserved = ask(&place.address, number, end_ms)?.max(row.reserved);
        seconds.push((env.monotonic() - asked).as_secs_f64());
    }
    row.alone_peak = process.resident_peak_bytes();
    row.alone_seconds = super::median(&seconds).unwrap_or_default();
    report(&format!("asking {} at once", plan.at_once));
    process.reset_resident_peak()?;
    let asked = env.monotonic();
    ask_at_once(&place.address, plan.at_once, end_ms)?;
    row.many_seconds = (env.monotonic() - asked).as_secs_f64();
    row.many_peak = process.resident_peak_bytes();
    Ok(row)
}

/// Returns a counter of an instance of one of the jobs.
fn series_of(number: u64, end_ms: i64) -> SampledSeries {
    let rate = number % 97 + 1;
    let samples = (0..MINUTES).map(|minute| {
        let at = end_ms - (MINUTES - 1 - minute) * 60_000;
        (at, (number + rate * minute as u64 * 60) as f64)
    });
    counter(number, samples)
}

fn path_of(number: u64, end_ms: i64) -> String {
    rates_path(number, end_ms / 1_000 - (MINUTES - 6) * 60, end_ms / 1_000)
}

/// Sends a query. Returns the peak of bytes that it reserved.
fn ask(address: &str, number: u64, end_ms: i64) -> Result<u64> {
    let mut connection = Connection::new(address).with_timeout(PATIENCE);
    let answer = connection.get(&(path_of(number, end_ms) + "&stats=true"))?;
    let groups = String::from_utf8_lossy(&answer.body).matches("\"job\"").count() as u64;
    if answer.status != 200 || groups != JOBS {
        bail!("answered with {} and {groups} of {JOBS} groups: {}", answer.status, answer.text());
    }
    let body: serde_json::Value = serde_json::from_slice(&answer.body)?;
    let reserved = body.pointer("/data/stats/amounts/memoryPeakBytes");
    Ok(reserved.and_then(serde_json::Value::as_u64).unwrap_or_default())
}

fn ask_at_once(address: &str, queries: u64, end_ms: i64) -> Result<()> {
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            (0..queries).map(|number| scope.spawn(move || ask(address, 100 + number, end_ms))).collect();
        for one in asked {
            one.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        Ok(())
    })
}

/// Returns a table in Markdown.
pub fn wide_table(rows: &[WideRow]) -> String {
    let mut text = String::from(
        "| series | idle | one query: reserved | beyond idle | seconds | at once | resident at most | \
         seconds | throughput of one after the other |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let serial = row.alone_seconds * row.at_once as f64;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.2} | {} | {} | {:.1} | {:.2} x |",
            row.series,
            ByteSize(row.idle),
            ByteSize(row.reserved),
            ByteSize(row.alone_peak.saturating_sub(row.idle)),
            row.alone_seconds,
            row.at_once,
            ByteSize(row.many_peak),
            row.many_seconds,
            serial / row.many_seconds.max(0.001),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_compares_concurrent_with_sequential_queries() {
        let row = WideRow {
            series: 1_000,
            idle: 10 << 20,
            alone_peak: 15 << 20,
            reserved: 3 << 20,
            alone_seconds: 0.5,
            many_peak: 30 << 20,
            many_seconds: 8.0,
            at_once: 32,
        };
        let table = wide_table(&[row]);
        assert!(
            table.contains("| 1000 | 10MiB | 3MiB | 5MiB | 0.50 | 32 | 30MiB | 8.0 | 2.00 x |"),
            "{table}"
        );
    }

    #[test]
    fn queries_differ_and_every_series_has_a_job() {
        assert_ne!(path_of(1, 0), path_of(2, 0));
        let series = series_of(45, 3_600_000);
        assert_eq!(series.labels[2], ("job", "job-05".to_owned()));
        assert_eq!((series.samples.len(), series.samples[59].0), (60, 3_600_000));
    }
}
