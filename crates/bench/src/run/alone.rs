//! Measures our server alone: pushes a data set, waits until the server is idle, sends queries. Repeats
//! this several times, each with an empty store.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_runtime::Env;

use super::report::{Column, median};
use super::server::{Place, Process, disk_bytes};
use crate::http::{Connection, escaped};
use crate::live::PUSH_PATH;
use crate::pack::{Manifest, PackReader};

/// Runs of each query after the first one, which warms the caches.
const QUERY_RUNS: usize = 5;
/// A server is idle if it uses less than this share of a core ...
const QUIET_SHARE: f64 = 0.05;
/// ... for this number of seconds in succession. The wait ends after `QUIET_PATIENCE_SECONDS`.
const QUIET_SECONDS: u32 = 3;
const QUIET_PATIENCE_SECONDS: u32 = 120;
/// How often a push is retried if the response requests it.
const TRIES_MAX: u32 = 60;

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct Alone {
    /// The server.
    pub place: Place,
    /// The data set.
    pub data: PathBuf,
    /// The number of runs.
    pub runs: usize,
}

/// Runs the measurement and returns a column of figures. `report` is called with progress messages.
pub async fn alone(env: &Env, plan: &Alone, mut report: impl FnMut(&str)) -> Result<Column> {
    let manifest = Manifest::load(&plan.data).with_context(|| {
        format!("{} is not a data set: make one with `sandur-bench generate`", plan.data.display())
    })?;
    let mut column = Column::new("sandur");
    for run in 1..=plan.runs {
        plan.place.down(env).await?;
        plan.place.wipe()?;
        let process = plan.place.up(env).await?;
        report(&format!("run {run} of {}: pushing {} MB", plan.runs, manifest.bytes / 1_000_000));
        let measured = one_run(env, plan, &manifest, process, &mut column).await;
        plan.place.down(env).await?;
        measured?;
    }
    plan.place.wipe()?;
    Ok(column)
}

async fn one_run(
    env: &Env,
    plan: &Alone,
    manifest: &Manifest,
    process: Process,
    column: &mut Column,
) -> Result<()> {
    let started = env.monotonic();
    push_all(env, &plan.place.address, &plan.data, manifest)?;
    let wall = (env.monotonic() - started).as_secs_f64();
    let mut connection = Connection::new(&plan.place.address);
    // as is usual for such stores, everything is flushed to blocks first
    let _ = connection.post("/flush", &[], &[]);
    settle(env, process).await;
    let cpu = process.cpu_seconds();
    check_lines(&mut connection, manifest)?;
    let megabytes = manifest.bytes as f64 / 1e6;
    column.add("push, s", wall);
    column.add("push, MB/s", megabytes / wall);
    column.add("processor time with settling, s", cpu);
    column.add("MB per processor second", megabytes / cpu.max(0.01));
    column.add("resident at most, MB", process.resident_peak_bytes() as f64 / 1e6);
    column.add("disk per raw byte", disk_bytes(&plan.place.data()) as f64 / manifest.bytes as f64);
    for (name, path) in queries(manifest) {
        column.add(&format!("{name}, ms"), ask(env, &mut connection, &path).context(name)?);
    }
    column.add("resident at most with queries, MB", process.resident_peak_bytes() as f64 / 1e6);
    Ok(())
}

/// Pushes each pack over a connection of its own.
pub(super) fn push_all(env: &Env, address: &str, data: &Path, manifest: &Manifest) -> Result<()> {
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for path in manifest.paths(data) {
            let failure = &failure;
            scope.spawn(move || {
                if let Err(error) = push_pack(env, address, &path) {
                    failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
    });
    match failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn push_pack(env: &Env, address: &str, path: &Path) -> Result<()> {
    let mut connection = Connection::new(address);
    let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    for frame in PackReader::open(path).with_context(|| path.display().to_string())? {
        let body = frame?.body;
        for attempt in 1.. {
            let answer = connection.post(PUSH_PATH, &["Content-Type: application/x-protobuf"], &body)?;
            match answer.status {
                200..300 => break,
                429 | 500.. if attempt < TRIES_MAX => {
                    waiting.block_on(env.sleep(Duration::from_millis(50) * attempt.min(10)));
                }
                status => bail!("a push was answered with {status}: {}", answer.text()),
            }
        }
    }
    Ok(())
}

/// Waits until the server is idle.
pub(super) async fn settle(env: &Env, process: Process) {
    let mut quiet = 0;
    for _ in 0..QUIET_PATIENCE_SECONDS {
        let before = process.cpu_seconds();
        env.sleep(Duration::from_secs(1)).await;
        quiet = if process.cpu_seconds() - before < QUIET_SHARE { quiet + 1 } else { 0 };
        if quiet == QUIET_SECONDS {
            return;
        }
    }
}

/// Checks that the server has all lines; otherwise its figures would mean nothing.
pub(super) fn check_lines(connection: &mut Connection, manifest: &Manifest) -> Result<()> {
    let range = manifest.to - manifest.from;
    let query = escaped(&format!("sum(count_over_time({{app=~\".+\"}}[{range}s]))"));
    let answer = connection.get(&format!("/loki/api/v1/query?query={query}&time={}", manifest.to))?;
    let json: serde_json::Value = serde_json::from_slice(&answer.body)
        .with_context(|| format!("a count was answered with {}: {}", answer.status, answer.text()))?;
    let counted = json["data"]["result"][0]["value"][1].as_str().and_then(|n| n.parse::<f64>().ok());
    if counted != Some(manifest.lines as f64) {
        bail!("{} lines were pushed, but the server counts {}", manifest.lines, counted.unwrap_or(0.0));
    }
    Ok(())
}

/// Returns the names and paths of the queries.
pub(super) fn queries(manifest: &Manifest) -> Vec<(&'static str, String)> {
    let (start, end) = (manifest.from * 1_000_000_000, manifest.to * 1_000_000_000);
    let log = |query: &str, limit: u32| {
        let query = escaped(query);
        format!(
            "/loki/api/v1/query_range?query={query}&start={start}&end={end}&limit={limit}&direction=backward"
        )
    };
    let metric = |query: &str| {
        let query = escaped(query);
        format!("/loki/api/v1/query_range?query={query}&start={start}&end={end}&step=60")
    };
    vec![
        ("needle that is there", log(&format!("{{app=~\".+\"}} |= `{}`", manifest.needle), 100)),
        ("needle that is not there", log("{app=~\".+\"} |= `5f0c1d9e8b7a4c3d2e1f00112233445f`", 100)),
        ("latest 1,000 lines", log("{app=~\".+\"}", 1000)),
        ("count by app and minute", metric("sum by (app) (count_over_time({app=~\".+\"}[1m]))")),
        ("count by level and minute", metric("sum by (detected_level) (count_over_time({app=~\".+\"}[1m]))")),
        ("count of a word", metric("sum by (app) (count_over_time({app=~\".+\"} |= `timed out` [1m]))")),
        ("JSON field", metric("sum(count_over_time({app=\"payments\"} | json | status>=500 [1m]))")),
        ("label values", format!("/loki/api/v1/label/app/values?start={start}&end={end}")),
    ]
}

/// Returns the median duration of a query in milliseconds.
fn ask(env: &Env, connection: &mut Connection, path: &str) -> Result<f64> {
    let mut times = Vec::new();
    for run in 0..=QUERY_RUNS {
        let asked = env.monotonic();
        let answer = connection.get(path)?;
        if answer.status != 200 {
            bail!("answered with {}: {}", answer.status, answer.text());
        }
        if run > 0 {
            times.push((env.monotonic() - asked).as_secs_f64() * 1000.0);
        }
    }
    median(&times).context("no run")
}
