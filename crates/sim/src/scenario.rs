//! One seeded run: writers of both signals, kills, pauses, deletes, merges, rollups and garbage
//! collection over a store that fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_base::Id;
use sandur_catalog::DeleteProgress;
use sandur_model::{Dataset, Signal, TenantId, TimeRange};
use sandur_runtime::{Env, Task};
use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};
use sandur_store::{Store, StoreOptions};
use xxhash_rust::xxh3::xxh3_64;

use crate::backups::{BackupCounts, Backups};
use crate::corrections::{Corrections, Instant};
use crate::node::{Node, Shape};
use crate::oracle::{Deletion, Oracle};
use crate::rolled::OldPoints;
use crate::row::{Content, Row, some_content};

/// The start of simulated time: 2026-11-21 00:00 UTC.
const START_NS: i64 = 1_795_219_200_000_000_000;
/// Number of rounds of writes and faults.
const ROUNDS: u64 = 12;
/// The quiet time after the faults stop: adoption takes 30 s, garbage collection its grace period.
const QUIET: Duration = Duration::from_secs(1_800);

/// With this block size, a few hundred points need several blocks of a day.
const SMALL_BLOCK: u64 = 256;

/// The limit of simulated time of a run. A longer run retries something endlessly.
const RUN_MAX: Duration = Duration::from_secs(6 * 3_600);
/// Number of requests that are shown for a run that does not end.
const LAST_REQUESTS: usize = 12;

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Hash of every request to the store, with its time and outcome; equal for equal seeds.
    pub trace: u64,
    /// Number of requests to the store.
    pub requests: usize,
    /// Number of rows that were written.
    pub rows: usize,
    /// Number of rows that were acknowledged and not deleted.
    pub acknowledged: usize,
    /// Number of rows that were deleted.
    pub deleted: usize,
    /// Number of delete requests that were acknowledged.
    pub deletes: usize,
    /// Number of instants of carbon metrics.
    pub instants: usize,
    /// Number of their values that were acknowledged.
    pub corrections: usize,
    /// Number of steps of an old day that were rolled up.
    pub rolled: usize,
    /// Number of nodes that were killed.
    pub kills: usize,
    /// Number of nodes that were cut off for longer than adoption takes.
    pub zombies: usize,
    /// The figures of the backups.
    pub backups: BackupCounts,
    /// Number of faults by kind.
    pub faults: Vec<(&'static str, u64)>,
}

/// Runs one seed to its end. An error is a violated invariant.
pub fn run(seed: u64) -> Result<Outcome> {
    run_with(seed, false)
}

/// Like [`run`], and makes and restores backups meanwhile.
pub fn run_backups(seed: u64) -> Result<Outcome> {
    run_with(seed, true)
}

fn run_with(seed: u64, has_backups: bool) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let outcome = runtime.block_on(async move {
        let mut scenario = Scenario::new(seed);
        if has_backups {
            let Scenario { env, world, oracle, .. } = &scenario;
            scenario.backups = Some(Backups::new(seed, env, world, oracle));
        }
        let (env, world) = (scenario.env.clone(), scenario.world.clone());
        let outcome = env.timeout(RUN_MAX, scenario.play()).await;
        let what = match outcome {
            _ if world.is_exhausted() => "sent requests to the store endlessly".to_owned(),
            None => format!("did not end within {RUN_MAX:?} of simulated time"),
            Some(outcome) => return outcome,
        };
        let trace = world.trace();
        let last = trace[trace.len().saturating_sub(LAST_REQUESTS)..].join("\n  ");
        bail!("the run {what}; its last requests were\n  {last}")
    });
    let repeat = match has_backups {
        false => format!("cargo xtask sim --seed {seed}"),
        true => format!("cargo xtask sim --backups 1 --first {seed}"),
    };
    outcome.with_context(|| format!("seed {seed} (repeat it with `{repeat}`)"))
}

fn lock<T>(oracle: &Mutex<T>) -> MutexGuard<'_, T> {
    oracle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends values of carbon metrics, and records whether they were acknowledged.
async fn send(node: &Node, corrections: &Mutex<Corrections>, values: &[(Instant, u64)]) {
    let sent = lock(corrections).sent(values);
    let before = node.engine.incarnation();
    if node.push_carbon(values).await.is_ok() {
        let incarnation = Some(before).filter(|before| *before == node.engine.incarnation());
        lock(corrections).acknowledged(sent, values, incarnation);
    }
}

struct Scenario {
    env: Env,
    world: FaultStore,
    nodes: Vec<Option<Arc<Node>>>,
    oracle: Arc<Mutex<Oracle>>,
    corrections: Arc<Mutex<Corrections>>,
    old: Arc<Mutex<OldPoints>>,
    shape: Shape,
    writers: Vec<Task<()>>,
    started: u64,
    kills: usize,
    zombies: usize,
    written: u64,
    /// Series and milliseconds that have a sample.
    instants: BTreeSet<(String, i64)>,
    /// Delete requests that were acknowledged.
    deletes: Vec<(Dataset, Id)>,
    backups: Option<Backups>,
}

impl Scenario {
    fn new(seed: u64) -> Self {
        let env = Env::simulated(seed, START_NS);
        let plan = match env.random_below(3) {
            0 => FaultPlan::latency_only(),
            1 => FaultPlan::some_faults(),
            _ => FaultPlan::many_faults(),
        };
        let world = FaultStore::new(env.clone(), seed ^ 0x5EED, plan);
        let count = 1 + env.random_below(3) as usize;
        let block_max = if env.random_below(2) == 0 { SMALL_BLOCK } else { u64::MAX };
        let shape = Shape { block_max, is_thin: env.random_below(2) == 0 };
        Self {
            env,
            world,
            nodes: vec![None; count],
            oracle: Arc::default(),
            corrections: Arc::default(),
            old: Arc::default(),
            shape,
            writers: Vec::new(),
            started: 0,
            kills: 0,
            zombies: 0,
            written: 0,
            instants: BTreeSet::new(),
            deletes: Vec::new(),
            backups: None,
        }
    }

    async fn play(&mut self) -> Result<Outcome> {
        for _ in 0..ROUNDS {
            self.start_missing().await;
            for _ in 0..1 + self.env.random_below(4) {
                self.write().await;
            }
            for _ in 0..self.env.random_below(4) {
                self.correct();
            }
            for _ in 0..self.env.random_below(6) {
                self.write_old();
            }
            if let Some(backups) = &mut self.backups {
                backups.act().await?;
            }
            self.trouble().await;
            self.env.sleep(Duration::from_millis(self.env.random_below(15_000))).await;
            self.check_readers(false).await?;
        }
        let rolled = self.end_faults().await?;
        let (rows, acknowledged) = self.oracle().counts();
        let (instants, corrections) = lock(&self.corrections).counts();
        let trace = self.world.trace();
        Ok(Outcome {
            trace: xxh3_64(trace.join("\n").as_bytes()),
            requests: trace.len(),
            rows,
            acknowledged,
            deleted: self.oracle().deleted_rows(),
            deletes: self.deletes.len(),
            instants,
            corrections,
            rolled,
            kills: self.kills,
            zombies: self.zombies,
            backups: self.backups.as_ref().map(|backups| backups.counts).unwrap_or_default(),
            faults: self.world.injected(),
        })
    }

    fn oracle(&self) -> MutexGuard<'_, Oracle> {
        lock(&self.oracle)
    }

    /// Starts the nodes that are missing. A node stays missing if the store fails just then.
    async fn start_missing(&mut self) {
        for place in 0..self.nodes.len() {
            if self.nodes[place].is_none() {
                self.started += 1;
                let name = format!("node-{place}-{}", self.started);
                let started = Node::start(name, &self.env, &self.world, self.shape).await;
                self.nodes[place] = started.ok().map(Arc::new);
            }
        }
    }

    /// Starts a writer that pushes a few entries or samples to a random node, sometimes the same ones
    /// again.
    async fn write(&mut self) {
        let place = self.env.random_below(self.nodes.len() as u64) as usize;
        let Some(node) = self.nodes[place].clone() else { return };
        let signal = Signal::ALL[self.env.random_below(2) as usize];
        let stream = format!("s{}", self.env.random_below(4));
        let rows = self.some_rows(signal, &stream);
        let again = self.env.random_below(4) == 0;
        let (oracle, env) = (Arc::clone(&self.oracle), self.env.clone());
        // Every push is recorded before the first one is sent: a delete request in between may meet rows
        // in transit.
        for row in rows.iter().cycle().take(rows.len() * (1 + usize::from(again))) {
            lock(&oracle).sent(signal, row);
        }
        let writer = self.env.spawn("writer", async move {
            for _ in 0..1 + u32::from(again) {
                env.sleep(Duration::from_millis(env.random_below(2_000))).await;
                // A push that failed may still arrive, so it stays unanswered.
                if node.push(signal, &stream, &rows).await.is_ok() {
                    let mut oracle = lock(&oracle);
                    rows.iter().for_each(|row| oracle.answered(row, true));
                }
            }
        });
        self.writers.retain(|writer| !writer.is_finished());
        self.writers.push(writer);
    }

    /// Starts a writer that sends values of carbon metrics to a random node, mostly for instants that
    /// have a value.
    fn correct(&mut self) {
        let place = self.env.random_below(self.nodes.len() as u64) as usize;
        let Some(node) = self.nodes[place].clone() else { return };
        let count = 1 + self.env.random_below(8);
        let values: Vec<(Instant, u64)> = (0..count).map(|_| self.some_value()).collect();
        let values: BTreeMap<Instant, u64> = values.into_iter().collect();
        let (corrections, env) = (Arc::clone(&self.corrections), self.env.clone());
        let writer = self.env.spawn("carbon", async move {
            env.sleep(Duration::from_millis(env.random_below(2_000))).await;
            let values: Vec<(Instant, u64)> = values.into_iter().collect();
            send(&node, &corrections, &values).await
        });
        self.writers.push(writer);
    }

    /// Starts a writer that sends points of an old day to a random node.
    fn write_old(&mut self) {
        let place = self.env.random_below(self.nodes.len() as u64) as usize;
        let Some(node) = self.nodes[place].clone() else { return };
        // Several minutes in each of several slots.
        let minute = self.env.random_below(10) as i64 * 130 + self.env.random_below(2) as i64;
        let (path, count) = (self.env.random_below(2), 4 + self.env.random_below(45) as u32);
        let points = lock(&self.old).send(START_NS, (path, minute), count);
        let (old, env) = (Arc::clone(&self.old), self.env.clone());
        let writer = self.env.spawn("old points", async move {
            env.sleep(Duration::from_millis(env.random_below(2_000))).await;
            if node.push_carbon(&points).await.is_ok() {
                lock(&old).acknowledged(&points);
            }
        });
        self.writers.push(writer);
    }

    fn some_value(&mut self) -> (Instant, u64) {
        self.written += 1;
        let path = format!("carbon.c{}", self.env.random_below(3));
        let known = lock(&self.corrections).instants();
        let instant = match self.env.random_below(4) {
            1.. if !known.is_empty() => known[self.env.random_below(known.len() as u64) as usize].clone(),
            _ => (path, self.env.now_ns() / 1_000_000 - self.env.random_below(7_200_000) as i64),
        };
        (instant, (self.written as f64).to_bits())
    }

    fn some_rows(&mut self, signal: Signal, stream: &str) -> Vec<Row> {
        let count = 1 + self.env.random_below(20);
        // Rows that are late by some hours, or by some weeks.
        let far = if self.shape.is_thin && self.env.random_below(4) == 0 { 200 } else { 1 };
        let late_ns = self.env.random_below(3) as i64 * self.env.random_below(7_200_000_000_000) as i64 * far;
        let first_ns = self.env.now_ns() - late_ns;
        let mut rows = Vec::new();
        for number in self.written..self.written + count {
            let n = (number - self.written) as i64;
            let (timestamp, content) = match signal {
                Signal::Logs => (first_ns + n, Content::Line(format!("row {number} of {stream}"))),
                Signal::Metrics => {
                    let ms = self.some_instant(stream, first_ns / 1_000_000 + n);
                    (ms * 1_000_000, some_content(&self.env, ms, number))
                }
            };
            rows.push(Row { stream: stream.to_owned(), timestamp, content });
        }
        // Queries find metadata in the blocks of the latest day only, so a run with backups, whose restored
        // stores are queried when this day is over, has none.
        let has_help = signal == Signal::Metrics && self.backups.is_none();
        if has_help && self.env.random_below(4) == 0 {
            let content = Content::Help(format!("help {}", self.env.random_below(3)));
            rows.push(Row { stream: format!("of_{stream}"), timestamp: 0, content });
        }
        if self.env.random_below(3) == 0 {
            rows.reverse();
        }
        self.written += count;
        rows
    }

    /// Returns a time near `ms` at which the series has no sample; sometimes one at which it has.
    fn some_instant(&mut self, stream: &str, ms: i64) -> i64 {
        if self.env.random_below(12) == 0
            && let Some(known) = self.instants.range((stream.to_owned(), ms - 60_000)..).next()
            && known.0 == stream
        {
            return known.1;
        }
        let mut free = ms;
        while !self.instants.insert((stream.to_owned(), free)) {
            free += 1;
        }
        free
    }

    /// Sends a delete request for a stream of a signal and some time to a random node.
    async fn delete(&mut self, place: usize) {
        let Some(node) = self.nodes[place].clone() else { return };
        let signal = Signal::ALL[self.env.random_below(2) as usize];
        let stream = format!("s{}", self.env.random_below(4));
        let end_ms = self.env.now_ns() / 1_000_000 - self.env.random_below(60_000) as i64;
        let start_ms = end_ms - 1_000 - self.env.random_below(7_200_000) as i64;
        let range = TimeRange::new(start_ms * 1_000_000, (end_ms + 1) * 1_000_000);
        let settled = self.oracle().deleting(&Deletion { signal, stream: stream.clone(), range });
        let dataset = Dataset { tenant: TenantId::default_tenant(), signal };
        let created = node.engine.create_delete(&dataset, &stream, start_ms, end_ms);
        if let Some(Ok(id)) = self.env.timeout(Duration::from_secs(60), created).await {
            self.deletes.push((dataset, id));
            self.oracle().deleted(&settled);
        }
    }

    /// Applies a random fault to a random node, or none.
    async fn trouble(&mut self) {
        let place = self.env.random_below(self.nodes.len() as u64) as usize;
        match self.env.random_below(8) {
            0 => self.kill(place),
            1 => {
                if let Some(node) = self.nodes[place].clone() {
                    node.cut(true);
                    self.zombies += 1;
                    let seconds = 20 + self.env.random_below(60);
                    self.env.sleep(Duration::from_secs(seconds)).await;
                    node.cut(false);
                }
            }
            2 => {
                if let Some(node) = self.nodes[place].clone() {
                    // A flush may fail while the store does; the background task retries it.
                    let _ = node.engine.flush().await;
                }
            }
            3 => self.env.set_clock_skew(
                Duration::from_secs(self.env.random_below(300)),
                self.env.random_below(2) == 0,
            ),
            4 | 5 => self.delete(place).await,
            _ => {}
        }
    }

    /// Kills a node and the writers that wait for it, as a loss of power does.
    fn kill(&mut self, place: usize) {
        let Some(node) = self.nodes[place].take() else { return };
        self.kills += 1;
        // Writers reference the node too: a killed process answers no request.
        self.writers.clear();
        drop(node);
    }

    async fn check_readers(&self, all: bool) -> Result<()> {
        for node in self.nodes.iter().flatten() {
            self.check_carbon(node, all).await?;
            self.check_old(node, all).await?;
            for signal in Signal::ALL {
                match node.rows(signal).await {
                    Ok(rows) => self.oracle().check(&node.name, signal, &rows, all)?,
                    // While the store fails a query may fail too, but it must return an error.
                    Err(error) if all => return Err(error),
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    async fn check_carbon(&self, node: &Node, all: bool) -> Result<()> {
        let (began, own) = (lock(&self.corrections).now(), node.engine.incarnation());
        match node.carbon().await {
            Ok(values) => lock(&self.corrections).check(&node.name, (began, own), &values, all),
            Err(error) if all => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Checks the points of the old day. Returns the number of steps that are rolled up.
    async fn check_old(&self, node: &Node, all: bool) -> Result<usize> {
        match node.old_points().await {
            Ok(found) => lock(&self.old).check(&node.name, &found, all),
            Err(error) if all => Err(error),
            Err(_) => Ok(0),
        }
    }

    /// Twice corrects values that are in blocks, by processes of which the second starts after the first
    /// has ended. The new values must be found in memory, after both have died, and in blocks, whatever
    /// is merged.
    async fn correct_settled(&mut self) -> Result<()> {
        lock(&self.corrections).settle();
        self.check_readers(true).await.context("of what is settled")?;
        let place = self.env.random_below(self.nodes.len() as u64) as usize;
        for _ in 0..2 {
            let ended = self.correct_and_end(place).await?;
            let slow = Duration::from_secs(self.env.random_below(20));
            self.world.fail_next(Op::Create, &format!("wal/{ended}"), Fault::Slow(slow));
            self.env.sleep(Duration::from_secs(5)).await;
            self.check_readers(true).await.context("from the WAL of a dead process")?;
        }
        // The order in which they died is not known.
        (0..self.nodes.len()).for_each(|place| self.kill(place));
        self.start_missing().await;
        self.env.sleep(QUIET).await;
        self.check_readers(true).await.context("after they were adopted")
    }

    /// Corrects some values on a node, kills it before the values are in blocks, and starts it again.
    /// Returns the incarnation that died.
    async fn correct_and_end(&mut self, place: usize) -> Result<Id> {
        let Some(node) = self.nodes[place].clone() else { bail!("a node is missing") };
        let mut values = Vec::new();
        for instant in lock(&self.corrections).instants() {
            if self.env.random_below(2) == 0 {
                self.written += 1;
                values.push((instant, (self.written as f64).to_bits()));
            }
        }
        send(&node, &self.corrections, &values).await;
        self.check_carbon(&node, true).await.context("in memory")?;
        let incarnation = node.engine.incarnation();
        drop(node);
        self.kill(place);
        lock(&self.corrections).ended(incarnation);
        self.start_missing().await;
        Ok(incarnation)
    }

    /// Turns the faults off: every node must find all acknowledged rows, and so must a node that starts
    /// with an empty cache. Returns the number of steps of the old day that are rolled up.
    async fn end_faults(&mut self) -> Result<usize> {
        self.world.quiet(true);
        self.env.set_clock_skew(Duration::ZERO, true);
        let place = self.env.random_below(self.nodes.len() as u64) as usize;
        self.kill(place);
        self.world.settle().await;
        self.start_missing().await;
        if self.nodes.iter().any(Option::is_none) {
            bail!("a node does not start although the store works");
        }
        for writer in self.writers.drain(..) {
            writer.join().await?;
        }
        self.env.sleep(QUIET).await;
        self.check_readers(true).await.context("after the faults ended")?;
        if let Some(backups) = &mut self.backups {
            backups.end(self.shape).await?;
            // Backups and restores take most of the time of a run; the rest of it is checked without them.
            return Ok(0);
        }
        for node in self.nodes.iter().flatten() {
            node.engine.flush().await.context("a flush while the store works")?;
        }
        self.check_readers(true).await.context("after a flush")?;
        self.correct_settled().await?;
        let fresh = Node::start("fresh".to_owned(), &self.env, &self.world, self.shape).await?;
        self.env.sleep(Duration::from_secs(5)).await;
        for signal in Signal::ALL {
            let found = fresh.rows(signal).await?;
            self.oracle().check("a fresh node", signal, &found, true)?;
        }
        self.check_carbon(&fresh, true).await?;
        let rolled = self.check_old(&fresh, true).await?;
        self.check_deletes(&fresh)?;
        self.check_store().await?;
        Ok(rolled)
    }

    /// Checks that every acknowledged delete request is processed, whatever blocks the other signal has.
    fn check_deletes(&self, node: &Node) -> Result<()> {
        let snapshot = node.engine.view().snapshot.clone();
        for (dataset, id) in &self.deletes {
            let progress = snapshot.delete(dataset, *id).map(|record| record.progress);
            match progress {
                Some(DeleteProgress::Processed { .. }) => {}
                left => bail!("a delete request for {dataset} is {left:?} after half an hour of quiet"),
            }
        }
        Ok(())
    }

    /// Checks that every reference of the catalog leads to an object.
    async fn check_store(&self) -> Result<()> {
        let store = Store::from_object_store(self.world.objects(), self.env.clone(), StoreOptions::default());
        let report = sandur_catalog::check(&store, &self.env).await?;
        if !report.is_undamaged() {
            bail!("the store is damaged: {:?}", report.findings);
        }
        Ok(())
    }
}
