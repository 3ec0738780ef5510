//! Measures a server of metrics or logs under several viewers of one dashboard while data arrives.
//!
//! Any server is measured by its protocol: it runs already, and only its process id is needed for CPU time
//! and memory. First the history is pushed, as far as it is wanted; then data arrives live, for a while
//! without viewers, whose CPU time is the base; then viewers load the panels at each refresh, with `now`
//! moving.
//!
//! **Invariants.** Data depends only on time, so runs against several servers have the same panels with the
//! same data. A refresh that is due while its viewer still loads the previous one is left out and counted, as
//! in a browser.

mod delivery;
mod dialect;
mod ingest;
mod panels;
mod report;
mod requests;
mod targets;
mod viewers;
mod window;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use sandur_runtime::Env;

use self::delivery::{Place, Tally, Waiting};
use self::ingest::{Data, Ingest, now_s, trace_at};
use self::panels::{Panel, panels};
use self::targets::{INTERVAL_S, Target};
use self::viewers::Viewers;
use super::alone::settle;
use super::server::Process;
use crate::http::{ANSWER_TIMEOUT, flush};
use crate::services::Services;

pub use self::dialect::Dialect;
pub use self::report::DashReport;

/// Seed and instances of the shop whose logs are pushed.
const SHOP: (u64, usize) = (1, 8);

/// The longest time to wait for live pushes that became due during the history.
const CATCH_UP_SECONDS: u32 = 120;
/// A push that is later belongs to these.
const LATE_MS: i64 = 1_000;

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct Dash {
    /// The protocol of the server.
    pub dialect: Dialect,
    /// URL before the paths of queries.
    pub url: String,
    /// URL of pushes; `None` for the usual path of the protocol.
    pub push: Option<String>,
    /// URL that is posted to after the history, to write it to blocks.
    pub flush: Option<String>,
    /// The process of the server.
    pub process: Option<Process>,
    /// Length of the history that is pushed first; zero for none.
    pub history: Duration,
    /// How long data arrives without viewers.
    pub alone: Duration,
    /// How long viewers watch.
    pub length: Duration,
    /// Number of viewers.
    pub viewers: usize,
    /// Time between two refreshes of a viewer.
    pub refresh: Duration,
    /// Whether ranges are multiples of their step.
    pub aligned: bool,
    /// Metrics: instances of each of four jobs.
    pub instances: u64,
    /// Metrics: further series of an instance, which no panel shows and which only arrive live.
    pub other_series: u64,
    /// Logs: lines per second of the history.
    pub history_rate: f64,
    /// Logs: lines per second while viewers watch.
    pub live_rate: f64,
}

impl Dash {
    fn data(&self) -> Data {
        match self.dialect.is_of_metrics() {
            true => Data::Metrics(Target::every(self.instances, self.other_series)),
            // A request has about two lines.
            false => Data::Logs {
                services: Services::new(SHOP.0, SHOP.1),
                history_rate: self.history_rate / 2.0,
                live_rate: self.live_rate / 2.0,
            },
        }
    }

    /// The panels of each viewer, whose traces are in the history that ends at this second.
    fn dashboards(&self, data: &Data, end_s: i64) -> Vec<Vec<Panel>> {
        let trace = |viewer: usize| match data {
            Data::Metrics(_) => String::new(),
            Data::Logs { services, history_rate, .. } => {
                trace_at(services, *history_rate, end_s - 7_200 + viewer as i64 * 60)
            }
        };
        (0..self.viewers).map(|viewer| panels(self.dialect, viewer, &trace(viewer))).collect()
    }
}

/// Runs the measurement. `report` is called with progress messages.
pub async fn dash(env: &Env, plan: &Dash, report: impl Fn(&str)) -> Result<DashReport> {
    let (data, tally, place) = (plan.data(), Tally::default(), Place::of(&plan.url));
    let push = match &plan.push {
        Some(url) => Place::of(url),
        None => Place { path: format!("{}{}", place.path, plan.dialect.push_path()), ..place.clone() },
    };
    let ingest = Ingest { env, dialect: plan.dialect, place: &push, tally: &tally, data: &data };
    let end_s = now_s(env).div_euclid(INTERVAL_S) * INTERVAL_S;
    if !plan.history.is_zero() {
        fill(env, plan, &ingest, end_s, &report).await?;
    }
    let stop = AtomicBool::new(false);
    let dashboards = plan.dashboards(&data, end_s);
    std::thread::scope(|scope| {
        let live = scope.spawn(|| ingest.live(end_s, &stop));
        // Not on this thread, which may not wait: it belongs to the runtime of this function.
        let watched = scope.spawn(|| watched(env, plan, (&place, &tally), &dashboards)).join();
        stop.store(true, Ordering::Relaxed);
        let live = live.join();
        match (watched, live) {
            (Ok(result), Ok(Ok(()))) => result,
            (Err(_), _) => bail!("a viewer panicked"),
            (_, live) => bail!("live pushes failed: {live:?}"),
        }
    })
}

/// Pushes the history and waits until the server has stored it and is idle.
async fn fill(env: &Env, plan: &Dash, ingest: &Ingest<'_>, end_s: i64, report: &impl Fn(&str)) -> Result<()> {
    let cpu = || plan.process.map_or(0.0, Process::cpu_seconds);
    let (begun, cpu_before) = (env.monotonic(), cpu());
    ingest.backfill(end_s - plan.history.as_secs().cast_signed(), end_s)?;
    if let Some(url) = &plan.flush {
        flush(url, ANSWER_TIMEOUT)?;
    }
    let seconds = (env.monotonic() - begun).as_secs_f64();
    if let Some(process) = plan.process {
        settle(env, process).await;
    }
    let (items, failures) = (&ingest.tally.items, &ingest.tally.failures);
    report(&format!(
        "history: {} samples or lines in {seconds:.1} s, {:.1} CPU seconds until idle, {} pushes failed {}",
        items.load(Ordering::Relaxed),
        cpu() - cpu_before,
        failures.load(Ordering::Relaxed),
        ingest.tally.reason().unwrap_or_default(),
    ));
    Ok(())
}

/// Waits until the live pushes that became due during the history are sent.
fn catch_up(tally: &Tally, waiting: &Waiting) {
    for _ in 0..CATCH_UP_SECONDS {
        waiting.pause(Duration::from_secs(1));
        if tally.lag_ms.swap(0, Ordering::Relaxed) < LATE_MS {
            return;
        }
    }
}

/// Measures the server while data arrives, first without viewers.
fn watched(
    env: &Env,
    plan: &Dash,
    (place, tally): (&Place, &Tally),
    dashboards: &[Vec<Panel>],
) -> Result<DashReport> {
    let cpu = || plan.process.map_or(0.0, Process::cpu_seconds);
    let per_second =
        |amount: f64, since: Duration| amount / (env.monotonic() - since).as_secs_f64().max(1e-3);
    let waiting = Waiting::new(env)?;
    if !plan.history.is_zero() {
        catch_up(tally, &waiting);
    }
    let (begun, cpu_before, items) = (env.monotonic(), cpu(), tally.items.load(Ordering::Relaxed));
    waiting.pause(plan.alone);
    let cores_alone = per_second(cpu() - cpu_before, begun);
    let items_per_second = per_second((tally.items.load(Ordering::Relaxed) - items) as f64, begun);
    tally.lag_ms.store(0, Ordering::Relaxed);
    if let Some(process) = plan.process {
        // Only the owner of the process may do this; otherwise the peak includes the history.
        let _ = process.reset_resident_peak();
    }
    let (begun, cpu_before) = (env.monotonic(), cpu());
    let viewers = Viewers {
        env,
        place,
        dialect: plan.dialect,
        aligned: plan.aligned,
        refresh: plan.refresh,
        length: plan.length,
    };
    let seen = viewers.watch(dashboards)?;
    Ok(DashReport {
        seen,
        seconds: (env.monotonic() - begun).as_secs_f64(),
        cores: per_second(cpu() - cpu_before, begun),
        cores_alone,
        items_per_second,
        resident_peak: plan.process.map_or(0, Process::resident_peak_bytes),
        lag_ms: tally.lag_ms.load(Ordering::Relaxed),
        pushes: (tally.retries.load(Ordering::Relaxed), tally.failures.load(Ordering::Relaxed)),
        push_reason: tally.reason(),
    })
}
