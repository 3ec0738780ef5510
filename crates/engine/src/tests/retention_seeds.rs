//! Goal: whatever is configured, pushed, deleted or merged, whatever process is killed and whatever
//! request fails, a row is removed only if its period was over under an unchanged configuration. All
//! other rows are found once and unchanged.
//!
//! Method: seeded runs of two engines over a simulated bucket with faults. A model records for each row
//! whether some configuration may have removed it.

use std::collections::BTreeMap;

use sandur_model::{DAY_NS, Dataset, Labels, RetentionRules};
use sandur_store::fault::FaultPlan;

use super::retention::{World, metrics, push_old, push_samples, rule};
use super::samples::{Samples, all};
use super::*;
use crate::Retention;

const STREAMS: [&str; 4] = ["s0", "s1", "s2", "s3"];
const ROUNDS: usize = 20;

/// Rows by signal, stream and time, with whether they may be removed.
type Model = BTreeMap<(&'static str, i64), RowState>;

struct RowState {
    /// The line, or the bits of the value.
    content: String,
    may_be_gone: bool,
    is_deleted: bool,
}

struct Run {
    world: World,
    engines: Vec<Arc<Engine>>,
    lines: Model,
    samples: Model,
    configured: Retention,
    /// When it was configured.
    since_ns: i64,
    /// Streams and times of delete requests.
    deletes: Vec<(&'static str, i64, i64)>,
    /// Seconds of days for which rows were pushed, so that no instant is used twice.
    next_second: i64,
    names: usize,
}

/// An engine that flushes within seconds as in production, because the times of writes decide which states
/// occur.
async fn open(world: &World, name: &str) -> Arc<Engine> {
    let options = EngineOptions { look_interval: Duration::from_secs(5), ..world.options() };
    open_on(&world.bucket, &world.env, name, options).await
}

impl Run {
    async fn new(seed: u64) -> Self {
        let world = World::new(seed, Retention::default());
        let engines = vec![open(&world, "a").await, open(&world, "b").await];
        let (lines, samples) = (Model::new(), Model::new());
        let configured = Retention::default();
        Self {
            since_ns: world.env.now_ns(),
            world,
            engines,
            lines,
            samples,
            configured,
            deletes: Vec::new(),
            next_second: 0,
            names: 0,
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.world.env.random_below(bound)
    }

    fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engines[self.below(self.engines.len() as u64) as usize])
    }

    /// Pushes rows of all or some streams, some days old.
    async fn push(&mut self) {
        let engine = self.engine();
        let (age, first) = (self.below(12) as i64, self.next_second);
        self.next_second += 20;
        let now_ns = self.world.env.now_ns();
        // The clock of the run advances; ages are counted from its start.
        let passed_days = (now_ns - START_NS) / DAY_NS;
        let days = age - passed_days;
        for stream in STREAMS {
            let count = [0, 1, 5, 20][self.below(4) as usize];
            let seconds = first..first + count;
            if self.below(2) == 0 {
                let rows = push_old(&engine, stream, days, seconds).await;
                let rows =
                    rows.into_iter().map(|(_, time, line)| ((stream, time), self.fresh(stream, time, line)));
                let rows: Vec<_> = rows.collect();
                self.lines.extend(rows);
            } else {
                let rows = push_samples(&engine, stream, days, seconds).await;
                let rows = rows.into_values().flatten();
                let fresh =
                    |bits: u64| RowState { content: bits.to_string(), may_be_gone: false, is_deleted: false };
                self.samples.extend(rows.map(|(ms, bits)| ((stream, ms * 1_000_000), fresh(bits))));
            }
        }
    }

    /// A new line: hidden at once if a request names it.
    fn fresh(&self, stream: &str, time: i64, content: String) -> RowState {
        let names = |(of, first, last): &(&str, i64, i64)| *of == stream && (*first..=*last).contains(&time);
        RowState { content, may_be_gone: false, is_deleted: self.deletes.iter().any(names) }
    }

    /// Notes which rows the current configuration may have removed.
    fn note(&mut self) {
        let now_ns = self.world.env.now_ns();
        let stood_ns = now_ns - self.since_ns;
        if stood_ns < self.world.options().maintenance.retention_change_delay.as_nanos() as i64 {
            return;
        }
        for ((stream, time), row) in self.lines.iter_mut().chain(&mut self.samples) {
            let period_ns = self.configured.rules.of(&Labels::from_pairs([("app", *stream)]));
            let period_ns = period_ns.map_or(self.configured.period_ns, |rule| rule.period_ns());
            row.may_be_gone |= period_ns > 0 && *time < now_ns - period_ns;
        }
    }

    fn configure(&mut self) {
        self.note();
        let days = |run: &Self| 1 + run.below(14) as i64;
        let own = [0, days(self), days(self)][self.below(3) as usize];
        let mut rules = Vec::new();
        for _ in 0..self.below(4) {
            let selector = ["s0", "s1", "s0|s2", "s.*"][self.below(4) as usize];
            rules.push(rule("app", selector, self.below(3) as i64, days(self)));
        }
        let rules = RetentionRules::new(rules).unwrap();
        self.configured = Retention { rules, ..Retention::uniform(own * DAY_NS) };
        self.since_ns = self.world.env.now_ns();
        self.world.configure(self.configured.clone());
    }

    /// Requests that lines of a stream are deleted.
    async fn delete(&mut self) {
        let stream = STREAMS[self.below(4) as usize];
        let first = START_NS - self.below(10) as i64 * DAY_NS;
        let last = first + self.below(2 * DAY_NS as u64) as i64;
        let logs = Dataset::logs(TenantId::default_tenant());
        let (first_ms, last_ms) = (first / 1_000_000, last / 1_000_000);
        if self.engine().create_delete(&logs, stream, first_ms, last_ms).await.is_ok() {
            let named = |((of, time), _): &(&(&str, i64), &mut RowState)| {
                *of == stream && (first_ms..=last_ms).contains(&(*time / 1_000_000))
            };
            self.lines.iter_mut().filter(named).for_each(|(_, row)| row.is_deleted = true);
            self.deletes.push((stream, first_ms * 1_000_000, last_ms * 1_000_000 + 999_999));
        }
    }

    /// Kills one of the processes and starts another.
    async fn replace(&mut self) {
        let at = self.below(2) as usize;
        self.names += 1;
        self.engines.remove(at);
        let engine = open(&self.world, &format!("other-{}", self.names)).await;
        self.engines.push(engine);
    }

    async fn change(&mut self) {
        match self.below(12) {
            0 | 1 => self.configure(),
            2 => self.delete().await,
            3 => self.replace().await,
            4 | 5 => drop(self.engine().flush().await),
            6 | 7 => self.world.env.sleep(Duration::from_secs(self.below(90))).await,
            8 | 9 => self.world.env.sleep(Duration::from_secs(self.below(40_000))).await,
            _ => self.push().await,
        }
    }

    /// Compares the model with the rows that the process finds. Returns the number of removed rows.
    async fn check(&mut self, what: &str) -> u64 {
        self.note();
        let engine = self.engine();
        let mut gone = 0;
        let mut found = read_all(&engine).await;
        let is_deleted = |row: &Row| {
            let known = self.lines.iter().find(|((stream, time), _)| *stream == row.0 && *time == row.1);
            known.is_some_and(|(_, row)| row.is_deleted)
        };
        // Rows that arrived after a request was processed may be present.
        found.retain(|row| !is_deleted(row));
        let found =
            found.iter().map(|(app, time, line)| ((app.as_str(), *time), line.clone())).collect::<Vec<_>>();
        assert!(found.is_sorted_by(|a, b| a.0 < b.0), "{what}: a line is found twice");
        gone += lacking(&self.lines, &found, what);
        let samples = all(&engine).await;
        gone += lacking(&self.samples, &of_apps(&samples), what);
        gone
    }
}

/// Returns the number of rows of the model that are missing, all of which must be allowed to be.
fn lacking(model: &Model, found: &[((&str, i64), String)], what: &str) -> u64 {
    for (row, content) in found {
        let known = model.get(row).unwrap_or_else(|| panic!("{what}: {row:?} was never written"));
        assert_eq!(*content, known.content, "{what}: {row:?} is not what was written");
    }
    let mut gone = 0;
    for (row, state) in model.iter().filter(|(_, state)| !state.is_deleted) {
        if found.binary_search_by(|(found, _)| found.cmp(row)).is_err() {
            assert!(state.may_be_gone, "{what}: {row:?} is gone before its time");
            gone += 1;
        }
    }
    gone
}

/// The samples of each app, by time in nanoseconds.
fn of_apps(samples: &Samples) -> Vec<((&str, i64), String)> {
    let mut rows = Vec::new();
    for (series, of) in samples {
        let app = series.split('"').nth(3).unwrap();
        rows.extend(of.iter().map(|(ms, bits)| ((app, ms * 1_000_000), bits.to_string())));
    }
    rows.sort_unstable();
    rows
}

fn faults() -> FaultPlan {
    FaultPlan {
        latency_median: Duration::from_millis(10),
        refused: 0.01,
        throttled: 0.01,
        failed: 0.01,
        lost_ack: 0.005,
        false_conflict: 0.005,
        truncated: 0.005,
        ..FaultPlan::none()
    }
}

/// Runs a seed. Returns the number of removed rows and of rewritten blocks.
async fn play(seed: u64) -> (u64, u64) {
    println!("seed {seed}");
    let mut run = Run::new(seed).await;
    let mut gone = 0;
    for round in 0..ROUNDS {
        run.world.bucket.set_plan(faults());
        for _ in 0..1 + run.below(3) {
            run.change().await;
        }
        run.world
            .bucket
            .set_plan(FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() });
        // Dead writers are adopted, and changes of other processes are read.
        run.world.env.sleep(Duration::from_secs(150)).await;
        gone = run.check(&format!("seed {seed}, round {round}")).await;
    }
    let rewritten = |engine: &Arc<Engine>| {
        engine.metrics().retention_blocks.get_or_create(&[("outcome", "rewritten")]).get()
    };
    let rewritten = run.engines.iter().map(rewritten).sum();
    let view = run.engines[0].view();
    assert!(view.snapshot.blocks(&metrics(), TimeRange::ALL).count() < 400);
    (gone, rewritten)
}

fn play_all(seeds: std::ops::Range<u64>) {
    let (mut gone, mut rewritten) = (0, 0);
    for seed in seeds {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let (rows, blocks) = runtime.block_on(play(seed));
        println!("seed {seed}: {rows} rows were removed, {blocks} blocks rewritten");
        gone += rows;
        rewritten += blocks;
    }
    assert!(gone > 20 && rewritten > 0, "{gone} {rewritten}: the runs removed rows and rewrote blocks");
}

#[test]
fn rows_are_removed_only_when_their_period_was_over() {
    play_all(7..8);
}

#[test]
#[ignore = "takes minutes; `cargo xtask nightly` runs it"]
fn rows_are_never_removed_before_their_period_is_over() {
    play_all(0..90);
}
