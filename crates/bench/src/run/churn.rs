//! Measures the cost of series churn: compares a simulated day in which each hour replaces a share of
//! the series with a day without replacements.
//!
//! Each day has a server and a store of its own. A slice of the day is the time that the server holds in
//! memory by default until it flushes; it is flushed after each slice. Every series has a sample per
//! minute during its lifetime, and the number of series is constant. Memory is the kernel's high-water
//! mark: during the day, and during the queries over its last hour. No query is repeated.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_base::units::ByteSize;
use sandur_runtime::Env;

use super::alone::settle;
use super::series_client::{JOBS, counter, push, rates_path};
use super::server::{Place, Process};
use crate::http::{Connection, flush};
use crate::push_body::SampledSeries;

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;
/// How often each query is sent.
const ASKED: u64 = 60;
/// The longest time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct Churn {
    /// The server; each day uses a subdirectory.
    pub place: Place,
    /// Number of series at any time.
    pub series: u64,
    /// Hours of a day.
    pub hours: u64,
    /// Minutes of a slice, a divisor of an hour.
    pub slice: i64,
    /// Percentages of the series that an hour replaces, one per day.
    pub percents: Vec<u64>,
}

/// The cost of a query over the last hour.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastHour {
    /// Duration in seconds, the median.
    pub seconds: f64,
    /// CPU seconds of the server, the mean.
    pub cpu_seconds: f64,
}

/// The figures of a day.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChurnRow {
    /// Percentage of the series that an hour replaced.
    pub percent: u64,
    /// Number of series of the day.
    pub series: u64,
    /// Peak of resident bytes during the pushes of the day.
    pub push_peak: u64,
    /// CPU seconds of the server until it was idle.
    pub push_cpu_seconds: f64,
    /// The query for a sum of rates by job.
    pub rates: LastHour,
    /// The query for the values of a label that differs for every series.
    pub values: LastHour,
    /// Peak of resident bytes during the queries.
    pub query_peak: u64,
}

/// Runs the measurement. `report` is called with progress messages.
pub async fn churn(env: &Env, plan: &Churn, report: impl Fn(&str)) -> Result<Vec<ChurnRow>> {
    let mut rows = Vec::new();
    for percent in &plan.percents {
        let mut place = plan.place.clone();
        place.directory = plan.place.directory.join(percent.to_string());
        place.down(env).await?;
        place.wipe()?;
        let row = measure(env, plan, &place, *percent, &report).await;
        place.down(env).await?;
        place.wipe()?;
        rows.push(row.with_context(|| format!("a day that replaces {percent} % an hour"))?);
    }
    Ok(rows)
}

async fn measure(
    env: &Env,
    plan: &Churn,
    place: &Place,
    percent: u64,
    report: &impl Fn(&str),
) -> Result<ChurnRow> {
    let process = place.up(env).await?;
    let replaced = plan.series * percent / 100;
    let end_ms = env.now_ns() / 1_000_000 / MINUTE_MS * MINUTE_MS;
    let start_ms = end_ms - plan.hours as i64 * HOUR_MS;
    for hour in 0..plan.hours {
        report(&format!("{percent} % an hour: hour {} of {}", hour + 1, plan.hours));
        let living = hour * replaced..hour * replaced + plan.series;
        let hour_ms = start_ms + hour as i64 * HOUR_MS;
        for minute in (0..60).step_by(plan.slice.clamp(1, 60) as usize) {
            let slice_ms = hour_ms + minute * MINUTE_MS;
            push(env, &place.address, living.clone(), |number| series_of(number, slice_ms, plan.slice))?;
            flush(&format!("http://{}/flush", place.address), PATIENCE)?;
        }
    }
    settle(env, process).await;
    let mut row =
        ChurnRow { percent, series: plan.series + (plan.hours - 1) * replaced, ..ChurnRow::default() };
    row.push_peak = process.resident_peak_bytes();
    row.push_cpu_seconds = process.cpu_seconds();
    process.reset_resident_peak()?;
    row.rates = asked(env, process, |number| ask_rates(place, number, end_ms)).await?;
    row.values = asked(env, process, |number| ask_values(place, plan.series, number, end_ms)).await?;
    row.query_peak = process.resident_peak_bytes();
    Ok(row)
}

async fn asked(env: &Env, process: Process, ask: impl Fn(u64) -> Result<()>) -> Result<LastHour> {
    // The first query fills caches, so it is not measured.
    ask(0)?;
    settle(env, process).await;
    let (cpu, mut seconds) = (process.cpu_seconds(), Vec::new());
    for number in 1..=ASKED {
        let begun = env.monotonic();
        ask(number)?;
        seconds.push((env.monotonic() - begun).as_secs_f64());
    }
    let cpu_seconds = (process.cpu_seconds() - cpu) / ASKED as f64;
    Ok(LastHour { seconds: super::median(&seconds).unwrap_or_default(), cpu_seconds })
}

/// Returns a counter of an instance of one of the jobs, with the minutes of a slice.
fn series_of(number: u64, slice_ms: i64, length: i64) -> SampledSeries {
    let (rate, first) = (number % 97 + 1, slice_ms / MINUTE_MS);
    let value = |minute: i64| (number + rate * (minute as u64 % 10_000) * 60) as f64;
    let minutes = (first..first + length).map(|minute| (minute * MINUTE_MS, value(minute)));
    counter(number, minutes)
}

fn ask_rates(place: &Place, number: u64, end_ms: i64) -> Result<()> {
    let path = rates_path(number, (end_ms - HOUR_MS) / 1_000, end_ms / 1_000);
    count_of(place, &path, "\"job\"", JOBS)
}

fn ask_values(place: &Place, series: u64, number: u64, end_ms: i64) -> Result<()> {
    // Within the last hour, during which the set of series is constant.
    let (start, end) = ((end_ms - HOUR_MS) / 1_000 + 60 + number as i64, end_ms / 1_000 - 60);
    let path = format!("/api/v1/label/instance/values?start={start}&end={end}");
    count_of(place, &path, "\"instance-", series)
}

fn count_of(place: &Place, path: &str, what: &str, wanted: u64) -> Result<()> {
    let answer = Connection::new(&place.address).with_timeout(PATIENCE).get(path)?;
    let found = String::from_utf8_lossy(&answer.body).matches(what).count() as u64;
    if answer.status != 200 || found != wanted {
        bail!("{path} was answered with {} and {found} of {wanted}: {:.500}", answer.status, answer.text());
    }
    Ok(())
}

/// Returns a table in Markdown.
pub fn churn_table(rows: &[ChurnRow]) -> String {
    let mut text = String::from(
        "| replaced an hour | series in the day | resident at most, pushed | CPU s | sum of rates: ms (CPU) \
         | values of a label: ms (CPU) | resident at most, asked |\n|---|---|---|---|---|---|---|\n",
    );
    let shown = |one: LastHour| format!("{:.1} ({:.1})", one.seconds * 1e3, one.cpu_seconds * 1e3);
    for row in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} % | {} | {} | {:.0} | {} | {} | {} |",
            row.percent,
            row.series,
            ByteSize(row.push_peak),
            row.push_cpu_seconds,
            shown(row.rates),
            shown(row.values),
            ByteSize(row.query_peak),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_continues_from_one_slice_to_the_next() {
        let (one, next) = (series_of(45, 0, 5), series_of(45, 5 * MINUTE_MS, 5));
        assert_eq!(one.labels[2], ("job", "job-05".to_owned()));
        assert_eq!((one.samples.len(), one.samples[4].0, next.samples[0].0), (5, 240_000, 300_000));
        assert_eq!(next.samples[0].1 - one.samples[4].1, one.samples[4].1 - one.samples[3].1);
    }

    #[test]
    fn the_table_has_a_line_for_each_day() {
        let taken = LastHour { seconds: 0.0125, cpu_seconds: 0.011 };
        let row = ChurnRow {
            percent: 20,
            series: 560,
            push_peak: 30 << 20,
            push_cpu_seconds: 7.4,
            rates: taken,
            values: taken,
            query_peak: 20 << 20,
        };
        let table = churn_table(&[row]);
        assert!(table.contains("| 20 % | 560 | 30MiB | 7 | 12.5 (11.0) | 12.5 (11.0) | 20MiB |"), "{table}");
    }
}
