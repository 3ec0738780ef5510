//! What a query over very many series takes: memory beyond idle, and time, alone and many at once.
//!
//! Each server has a limit, a store of its own and so many series of one metric, a sample a minute for an
//! hour; blocks are merged before anything is asked. Memory is the kernel's high-water mark, which is put
//! back to what is resident before each load. No query is asked twice, so that none is answered from steps
//! that were kept.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_base::Env;
use sandur_base::units::ByteSize;

use super::alone::settle;
use super::series_client::{JOBS, counter, push, rates_path};
use super::server::Place;
use crate::http::Connection;
use crate::push_body::SampledSeries;

const MINUTES: i64 = 60;
/// Longest wait for an answer of one of many.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Wide {
    /// The server; each number of series has a directory within its own.
    pub place: Place,
    /// Numbers of series, each on a server of its own.
    pub series: Vec<u64>,
    /// Queries at once, in the second load.
    pub at_once: u64,
}

/// What was measured of one number of series.
#[derive(Clone, Copy, Debug, Default)]
pub struct WideRow {
    /// Series.
    pub series: u64,
    /// Resident bytes before anything was asked.
    pub idle: u64,
    /// Most resident bytes of one query.
    pub alone_peak: u64,
    /// Most bytes that one query had reserved at once, as its statistics tell.
    pub reserved: u64,
    /// Seconds of one query: the median of several.
    pub alone_seconds: f64,
    /// Most resident bytes of many at once.
    pub many_peak: u64,
    /// Seconds until all of many were answered.
    pub many_seconds: f64,
    /// How many were at once.
    pub at_once: u64,
}

/// Measures; `told` hears what is going on.
pub async fn wide(env: &Env, plan: &Wide, told: impl Fn(&str)) -> Result<Vec<WideRow>> {
    let mut rows = Vec::new();
    for series in &plan.series {
        let mut place = plan.place.clone();
        place.directory = plan.place.directory.join(series.to_string());
        place.down(env).await?;
        place.wipe()?;
        let row = measure(env, plan, &place, *series, &told).await;
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
    told: &impl Fn(&str),
) -> Result<WideRow> {
    let process = place.up(env).await?;
    let end_ms = env.now_ns() / 1_000_000 / 60_000 * 60_000;
    told(&format!("pushing {series} series"));
    push(env, &place.address, 0..series, |number| series_of(number, end_ms))?;
    let _ = Connection::new(&place.address).post("/flush", &[], &[]);
    settle(env, process).await;
    // Started anew, a server holds nothing but what it needs to answer.
    place.down(env).await?;
    let process = place.up(env).await?;
    settle(env, process).await;
    let mut row = WideRow { series, at_once: plan.at_once, ..WideRow::default() };
    told("asking once");
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
    told(&format!("asking {} at once", plan.at_once));
    process.reset_resident_peak()?;
    let asked = env.monotonic();
    ask_at_once(&place.address, plan.at_once, end_ms)?;
    row.many_seconds = (env.monotonic() - asked).as_secs_f64();
    row.many_peak = process.resident_peak_bytes();
    Ok(row)
}

/// A counter of an instance of one of the jobs.
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

/// Asks once; the most bytes that the query had reserved.
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

/// A table in Markdown.
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
    fn the_table_compares_many_at_once_with_one_after_the_other() {
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
    fn every_query_is_another_and_every_series_has_a_job() {
        assert_ne!(path_of(1, 0), path_of(2, 0));
        let series = series_of(45, 3_600_000);
        assert_eq!(series.labels[2], ("job", "job-05".to_owned()));
        assert_eq!((series.samples.len(), series.samples[59].0), (60, 3_600_000));
    }
}
