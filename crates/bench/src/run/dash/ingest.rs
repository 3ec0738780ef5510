//! The data of a dashboard: history first, then what arrives while viewers watch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use sandur_model::SECOND_NS;
use sandur_runtime::Env;

use super::delivery::{Place, Pusher, Tally, Waiting};
use super::dialect::Dialect;
use super::targets::{INTERVAL_S, Target};
use crate::push_body::{remote_write, snappy};
use crate::services::{Services, Stream};

/// Number of connections that push.
const PUSHERS: usize = 4;
/// Seconds of history after which pushers wait for each other: a server may refuse samples that are an hour
/// older than others.
const SLICE_S: i64 = 1_800;
/// Number of samples of a series in a body of the history.
const BODY_SAMPLES: i64 = 20;
/// Seconds of logs in a body of the history.
const BODY_S: i64 = 60;
/// The longest time after which a waiting pusher looks whether the measurement has ended.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What is pushed.
pub(super) enum Data {
    /// Metrics of these targets.
    Metrics(Vec<Target>),
    /// Logs of the shop.
    Logs {
        /// Their generator.
        services: Services,
        /// Requests of customers per second of the history; each has about two lines.
        history_rate: f64,
        /// The same while viewers watch.
        live_rate: f64,
    },
}

/// The pushes to a server.
pub(super) struct Ingest<'a> {
    /// The clock.
    pub(super) env: &'a Env,
    /// The protocol of the server.
    pub(super) dialect: Dialect,
    /// Where to push.
    pub(super) place: &'a Place,
    /// Counts of pushes.
    pub(super) tally: &'a Tally,
    /// What is pushed.
    pub(super) data: &'a Data,
}

impl Ingest<'_> {
    /// Pushes the history from one second to before another one.
    pub(super) fn backfill(&self, from_s: i64, to_s: i64) -> Result<()> {
        let mut start = from_s;
        while start < to_s {
            let end = to_s.min(start - start.rem_euclid(SLICE_S) + SLICE_S);
            self.by_pushers(|number, pusher, _| match self.data {
                Data::Metrics(targets) => fill_metrics(targets, number, pusher, (start, end)),
                Data::Logs { services, history_rate, .. } => {
                    fill_logs((services, *history_rate), number, pusher, (start, end));
                }
            })?;
            start = end;
        }
        Ok(())
    }

    /// Pushes what arrives from this second on, until `stop` is set. What is due already is pushed at once.
    pub(super) fn live(&self, from_s: i64, stop: &AtomicBool) -> Result<()> {
        self.by_pushers(|number, pusher, waiting| match self.data {
            Data::Metrics(targets) => {
                let own: Vec<&Target> = targets.iter().skip(number).step_by(PUSHERS).collect();
                let mut scrape = from_s.div_euclid(INTERVAL_S);
                while self.scrape(&own, scrape, pusher, (waiting, stop)) {
                    scrape += 1;
                }
            }
            // One agent is enough for lines.
            Data::Logs { services, live_rate, .. } if number == 0 => {
                for second in from_s.. {
                    // The lines of a second are complete at its end.
                    if !self.wait_until((second + 1) * 1_000, (waiting, stop)) {
                        return;
                    }
                    push_lines(pusher, &services.between(second, second + 1, *live_rate));
                }
            }
            Data::Logs { .. } => {}
        })
    }

    /// Pushes one scrape of the targets, each when it is due. Returns false when the measurement has ended.
    fn scrape(
        &self,
        targets: &[&Target],
        number: i64,
        pusher: &mut Pusher<'_>,
        until: (&Waiting, &AtomicBool),
    ) -> bool {
        let mut due: Vec<&&Target> = targets.iter().collect();
        due.sort_by_key(|target| target.offset_ms);
        due.into_iter().all(|target| {
            let waited = self.wait_until(number * INTERVAL_S * 1_000 + target.offset_ms, until);
            if waited {
                let series = target.scrape(number);
                pusher.send(&remote_write(&series), series.len() as u64);
            }
            waited
        })
    }

    /// Waits for a time and records how late it is. Returns false when the measurement has ended.
    fn wait_until(&self, due_ms: i64, (waiting, stop): (&Waiting, &AtomicBool)) -> bool {
        loop {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let early_ms = due_ms - self.env.now_ns().div_euclid(1_000_000);
            if early_ms <= 0 {
                self.tally.lag_ms.fetch_max(-early_ms, Ordering::Relaxed);
                return true;
            }
            waiting.pause(Duration::from_millis(early_ms.unsigned_abs()).min(LOOK_EVERY));
        }
    }

    /// Runs `work` on a thread for each pusher.
    fn by_pushers(&self, work: impl Fn(usize, &mut Pusher<'_>, &Waiting) + Sync) -> Result<()> {
        std::thread::scope(|scope| {
            let pushers: Vec<_> = (0..PUSHERS)
                .map(|number| {
                    let work = &work;
                    scope.spawn(move || {
                        let (waiting, headers) = (Waiting::new(self.env)?, self.dialect.push_headers());
                        let mut pusher = Pusher::new(self.place, headers, self.tally, &waiting);
                        work(number, &mut pusher, &waiting);
                        Ok(())
                    })
                })
                .collect();
            pushers.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| bail!("a pusher panicked")))
        })
    }
}

fn fill_metrics(targets: &[Target], number: usize, pusher: &mut Pusher<'_>, (start, end): (i64, i64)) {
    let (mut first, end) = (start.div_euclid(INTERVAL_S), end.div_euclid(INTERVAL_S));
    while first < end {
        let count = BODY_SAMPLES.min(end - first);
        for target in targets.iter().skip(number).step_by(PUSHERS) {
            let series = target.history(first, count);
            let samples = series.iter().map(|one| one.samples.len() as u64).sum();
            pusher.send(&remote_write(&series), samples);
        }
        first += count;
    }
}

fn fill_logs(
    (services, rate): (&Services, f64),
    number: usize,
    pusher: &mut Pusher<'_>,
    (start, end): (i64, i64),
) {
    for second in (start..end).step_by(BODY_S as usize).skip(number).step_by(PUSHERS) {
        push_lines(pusher, &services.between(second, end.min(second + BODY_S), rate));
    }
}

fn push_lines(pusher: &mut Pusher<'_>, streams: &[Stream]) {
    let lines = streams.iter().map(|stream| stream.lines.len() as u64).sum();
    if lines > 0 {
        pusher.send(&snappy(streams), lines);
    }
}

/// The id of a trace in the logs of this second or a later one.
pub(super) fn trace_at(services: &Services, rate: f64, second: i64) -> String {
    let ids = (second..second + BODY_S).find_map(|second| {
        let streams = services.between(second, second + 1, rate);
        let payments = streams.into_iter().filter(|stream| stream.labels.get("app") == Some("payments"));
        let mut lines = payments.flat_map(|stream| stream.lines);
        lines.find_map(|line| line.metadata.into_iter().find(|(name, _)| *name == "trace_id"))
    });
    ids.map(|(_, id)| id).unwrap_or_default()
}

/// The current second.
pub(super) fn now_s(env: &Env) -> i64 {
    env.now_ns().div_euclid(SECOND_NS)
}
