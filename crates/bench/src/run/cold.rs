//! Measures queries over a remote bucket: the first time, again, and after a kill and a restart.
//!
//! Each query is sent to a server that has just started with empty caches, then once more, and once more
//! after the server was killed and started again. Block reads are counted by the proxy before the
//! bucket, ranges by the server's own metrics.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_base::units::ByteSize;
use sandur_runtime::Env;
use sandur_s3_server::S3Server;

use super::alone::{check_lines, push_all, queries, settle};
use super::scrape::Scrape;
use super::series_client::push;
use super::server::Place;
use crate::distant::{Counted, Proxy, ProxyFaults};
use crate::http::{Connection, escaped};
use crate::pack::Manifest;
use crate::push_body::SampledSeries;

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct Cold {
    /// The server. The measurement sets its bucket.
    pub place: Place,
    /// The data set.
    pub data: PathBuf,
    /// Path of the program versitygw.
    pub s3: PathBuf,
    /// Number of series that are pushed in addition to the logs, with a day of samples.
    pub series: u64,
    /// Additional latency of every read from the bucket.
    pub get_delay: Duration,
    /// The cache directory of the server. It is removed before each first run, and at the end.
    pub cache: Option<PathBuf>,
}

impl Cold {
    /// Removes the server's cache, which may use up to half of the disk. The server must not be running.
    pub fn remove_cache(&self) -> Result<()> {
        let Some(cache) = self.cache.as_ref().filter(|cache| cache.exists()) else { return Ok(()) };
        fs::remove_dir_all(cache).with_context(|| format!("cannot remove {}", cache.display()))
    }
}

/// Hours of samples.
const HOURS: i64 = 24;
/// Seconds between two samples.
const STEP: i64 = 15;
/// Hours of samples in a body.
const BODY_HOURS: i64 = 2;

/// The figures of one run of a query.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Milliseconds until the complete answer arrived.
    pub ms: f64,
    /// The requests to the bucket.
    pub counted: Counted,
    /// Number of ranges of blocks that were needed.
    pub ranges: f64,
    /// Number of reads that were planned for them.
    pub reads: f64,
    /// The longest chain of sequential block reads.
    pub round_trips: u64,
}

/// The figures of all queries.
#[derive(Clone, Debug, Default)]
pub struct ColdReport {
    /// By query: its name, and the first run, the second, and the first after a kill.
    pub queries: Vec<(String, [Measured; 3])>,
}

/// The bucket and its proxy, for the duration of a measurement.
pub struct Distant {
    /// The latency, errors and counts of the proxy.
    pub faults: Arc<ProxyFaults>,
    // Fields are dropped in this order: the proxy before its server.
    _proxy: Proxy,
    _server: S3Server,
}

/// Runs the measurement. `report` is called with progress messages. Also returns the bucket, with the data
/// set in it and the server stopped, for further measurements.
pub async fn cold(env: &Env, plan: &mut Cold, report: impl Fn(&str)) -> Result<(ColdReport, Distant)> {
    let manifest = Manifest::load(&plan.data).with_context(|| {
        format!("{} is not a data set: make one with `sandur-bench generate`", plan.data.display())
    })?;
    plan.place.down(env).await?;
    fs::create_dir_all(&plan.place.directory)?;
    let distant = Distant::before(env, &mut plan.place, &plan.s3).await?;
    load(env, plan, &manifest, &report).await?;
    distant.faults.set_get_delay(plan.get_delay);
    let mut measured = ColdReport::default();
    let panels = panels(manifest.to);
    for (name, path) in queries(&manifest).into_iter().chain(panels.into_iter().filter(|_| plan.series > 0)) {
        report(&format!("asking: {name}"));
        let runs = three_runs(env, plan, &distant.faults, &path).await;
        plan.place.down(env).await?;
        measured.queries.push((name.to_owned(), runs.context(name)?));
    }
    Ok((measured, distant))
}

impl Distant {
    /// Starts an empty bucket and sets it as the bucket of a server.
    pub async fn before(env: &Env, place: &mut Place, s3: &Path) -> Result<Self> {
        let server = S3Server::start(s3, &place.directory.join("bucket"))?;
        let faults = Arc::new(ProxyFaults::new(env.clone()));
        let proxy = Proxy::start(server.address(), Arc::clone(&faults))?;
        place.bucket = Some(S3Server::url(proxy.address(), "bench"));
        Ok(Self { faults, _proxy: proxy, _server: server })
    }
}

async fn load(env: &Env, plan: &Cold, manifest: &Manifest, report: &impl Fn(&str)) -> Result<()> {
    let process = plan.place.up(env).await?;
    report(&format!("pushing {} MB", manifest.bytes / 1_000_000));
    let loaded = async {
        push_all(env, &plan.place.address, &plan.data, manifest)?;
        for hour in (0..HOURS).step_by(BODY_HOURS as usize) {
            let start = manifest.to - (HOURS - hour) * 3_600;
            push(env, &plan.place.address, 0..plan.series, |number| series_of(number, start))?;
        }
        let mut connection = Connection::new(&plan.place.address);
        let _ = connection.post("/flush", &[], &[]);
        settle(env, process).await;
        check_lines(&mut connection, manifest)
    };
    let loaded = loaded.await;
    plan.place.down(env).await?;
    loaded
}

/// After this time, flash has everything that was read.
const WRITTEN_AFTER: Duration = Duration::from_millis(1_500);

async fn three_runs(env: &Env, plan: &Cold, faults: &ProxyFaults, path: &str) -> Result<[Measured; 3]> {
    plan.remove_cache()?;
    plan.place.up(env).await?;
    let first = ask(env, plan, faults, path)?;
    let second = ask(env, plan, faults, path)?;
    // Data that was just read is on flash within a second; a process that is killed earlier reads it
    // again.
    env.sleep(WRITTEN_AFTER).await;
    plan.place.kill(env).await?;
    plan.place.up(env).await?;
    let killed = ask(env, plan, faults, path)?;
    Ok([first, second, killed])
}

fn ask(env: &Env, plan: &Cold, faults: &ProxyFaults, path: &str) -> Result<Measured> {
    let mut connection = Connection::new(&plan.place.address);
    let (counted, before) = (faults.counted(), Scrape::take(&mut connection)?);
    faults.begin_round_trips();
    let asked = env.monotonic();
    let answer = connection.get(path)?;
    let ms = (env.monotonic() - asked).as_secs_f64() * 1_000.0;
    if answer.status != 200 {
        bail!("answered with {}: {}", answer.status, answer.text());
    }
    let (counted, round_trips) = (faults.counted().since(counted), faults.round_trips());
    let after = Scrape::take(&mut connection)?;
    let grown = |name| after.sum(name) - before.sum(name);
    let ranges = grown("sandur_store_ranges_wanted_total");
    Ok(Measured { ms, counted, ranges, reads: grown("sandur_store_ranges_read_total"), round_trips })
}

/// Returns a gauge of a host of one of ten jobs, for the time span of one body from `start` on.
fn series_of(number: u64, start: i64) -> SampledSeries {
    let labels = [
        ("__name__", "node_load".to_owned()),
        ("host", format!("host-{number:05}")),
        ("job", format!("job-{}", number % 10)),
    ];
    let times = (1..=BODY_HOURS * 3_600 / STEP).map(|place| start + place * STEP);
    // A slow wave plus the noise of a hash, in hundredths.
    let value = |time: i64| {
        let noise = (time as u64 ^ number << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57;
        ((time / 600 % 100) * 20 + noise as i64 + number as i64 % 50) as f64 / 100.0
    };
    SampledSeries {
        labels: labels.to_vec(),
        samples: times.map(|time| (time * 1_000, value(time))).collect(),
    }
}

/// Returns the queries over the day of samples.
fn panels(end: i64) -> [(&'static str, String); 2] {
    let start = end - HOURS * 3_600;
    let range = |query: &str, step: i64| {
        format!("/api/v1/query_range?query={}&start={start}&end={end}&step={step}", escaped(query))
    };
    [
        ("panel of all series", range("avg_over_time(node_load[5m])", 300)),
        ("average by job", range("avg by (job) (avg_over_time(node_load[5m]))", 300)),
    ]
}

impl ColdReport {
    /// Returns a table in Markdown, with the sums in its last row.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| query | first, ms | GETs | round trips | bytes | ranges | again, ms | GETs | faster \
             | killed, ms | GETs | faster |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        let mut sums = [Measured::default(); 3];
        for (name, runs) in &self.queries {
            row(&mut text, name, runs);
            for (sum, run) in sums.iter_mut().zip(runs) {
                sum.ms += run.ms;
                sum.ranges += run.ranges;
                sum.round_trips += run.round_trips;
                sum.counted.block_gets += run.counted.block_gets;
                sum.counted.block_bytes += run.counted.block_bytes;
            }
        }
        row(&mut text, "**all**", &sums);
        text
    }
}

fn row(text: &mut String, name: &str, [first, second, killed]: &[Measured; 3]) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "| {name} | {:.0} | {} | {} | {} | {} | {:.1} | {} | {:.1} x | {:.1} | {} | {:.1} x |",
        first.ms,
        first.counted.block_gets,
        first.round_trips,
        ByteSize(first.counted.block_bytes),
        first.ranges,
        second.ms,
        second.counted.block_gets,
        first.ms / second.ms.max(0.001),
        killed.ms,
        killed.counted.block_gets,
        first.ms / killed.ms.max(0.001),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_continues_from_one_body_to_the_next() {
        let (one, next) = (series_of(3, 0), series_of(3, BODY_HOURS * 3_600));
        let last = one.samples.last().unwrap().0;
        assert_eq!((one.samples.len(), next.samples[0].0 - last), (480, 15_000));
        assert!(one.samples.iter().all(|(_, value)| (0.0..30.0).contains(value)));
    }

    #[test]
    fn the_table_shows_every_run_and_the_sums() {
        let run = |ms, block_gets| {
            let counted = Counted { block_gets, block_bytes: block_gets << 20, ..Counted::default() };
            Measured { ms, counted, ranges: 9.0, reads: 3.0, round_trips: 2 }
        };
        let runs = [run(300.0, 10), run(30.0, 0), run(60.0, 1)];
        let report = ColdReport { queries: vec![("a".to_owned(), runs), ("b".to_owned(), runs)] };
        let table = report.table();
        for line in [
            "| a | 300 | 10 | 2 | 10MiB | 9 | 30.0 | 0 | 10.0 x | 60.0 | 1 | 5.0 x |",
            "| **all** | 600 | 20 | 4 | 20MiB | 18 | 60.0 | 0 | 10.0 x | 120.0 | 2 | 5.0 x |",
        ] {
            assert!(table.contains(line), "{line} is not in\n{table}");
        }
    }
}
