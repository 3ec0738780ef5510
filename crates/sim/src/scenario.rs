//! One seeded run: writers, kills, pauses, merges and garbage collection over a failing store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_base::{Env, Task};
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};
use xxhash_rust::xxh3::xxh3_64;

use crate::node::{Node, WrittenRow};
use crate::oracle::Oracle;

/// Simulated time begins here: 2026-11-21 00:00 UTC.
const START_NS: i64 = 1_795_219_200_000_000_000;
/// Rounds of writing and trouble.
const ROUNDS: u64 = 12;
/// How long the world is given to calm down: adoption takes 30 s, garbage collection its grace.
const QUIET: Duration = Duration::from_secs(1_800);

/// No run takes longer: one that does asks for something for ever.
const RUN_MAX: Duration = Duration::from_secs(6 * 3_600);
/// Requests that are shown of a run that does not end.
const LAST_REQUESTS: usize = 12;

/// What a run was like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Hash of every request to the store, its time and its fate: equal for equal seeds.
    pub trace: u64,
    /// Requests to the store.
    pub requests: usize,
    /// Rows that were written.
    pub rows: usize,
    /// Rows that were acknowledged.
    pub acknowledged: usize,
    /// Nodes that were killed.
    pub kills: usize,
    /// Nodes that were cut off for longer than it takes to be adopted.
    pub zombies: usize,
    /// Faults by kind.
    pub faults: Vec<(&'static str, u64)>,
}

/// Runs one seed to its end; an error is a violated invariant.
pub fn run(seed: u64) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let outcome = runtime.block_on(async move {
        let mut scenario = Scenario::new(seed);
        let (env, world) = (scenario.env.clone(), scenario.world.clone());
        let outcome = env.timeout(RUN_MAX, scenario.play()).await;
        let what = match outcome {
            _ if world.is_exhausted() => "asked the store without end".to_owned(),
            None => format!("did not end within {RUN_MAX:?} of simulated time"),
            Some(outcome) => return outcome,
        };
        let trace = world.trace();
        let last = trace[trace.len().saturating_sub(LAST_REQUESTS)..].join("\n  ");
        bail!("the run {what}; it last did\n  {last}")
    });
    outcome.with_context(|| format!("seed {seed} (repeat it with `cargo xtask sim --seed {seed}`)"))
}

struct Scenario {
    env: Env,
    world: FaultStore,
    nodes: Vec<Option<Arc<Node>>>,
    oracle: Arc<Mutex<Oracle>>,
    writers: Vec<Task<()>>,
    started: u64,
    kills: usize,
    zombies: usize,
    written: u64,
}

impl Scenario {
    fn new(seed: u64) -> Self {
        let env = Env::simulated(seed, START_NS);
        let plan = match env.random_below(3) {
            0 => FaultPlan::calm(),
            1 => FaultPlan::cloudy(),
            _ => FaultPlan::stormy(),
        };
        let world = FaultStore::new(env.clone(), seed ^ 0x5EED, plan);
        let count = 1 + env.random_below(3) as usize;
        Self {
            env,
            world,
            nodes: vec![None; count],
            oracle: Arc::default(),
            writers: Vec::new(),
            started: 0,
            kills: 0,
            zombies: 0,
            written: 0,
        }
    }

    async fn play(&mut self) -> Result<Outcome> {
        for _ in 0..ROUNDS {
            self.start_missing().await;
            for _ in 0..1 + self.env.random_below(4) {
                self.write().await;
            }
            self.trouble().await;
            self.env.sleep(Duration::from_millis(self.env.random_below(15_000))).await;
            self.check_readers(false).await?;
        }
        self.calm_down().await?;
        let (rows, acknowledged) = self.oracle().counts();
        let trace = self.world.trace();
        Ok(Outcome {
            trace: xxh3_64(trace.join("\n").as_bytes()),
            requests: trace.len(),
            rows,
            acknowledged,
            kills: self.kills,
            zombies: self.zombies,
            faults: self.world.injected(),
        })
    }

    fn oracle(&self) -> std::sync::MutexGuard<'_, Oracle> {
        self.oracle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a node in every empty place. A store that fails just now leaves the place empty.
    async fn start_missing(&mut self) {
        for place in 0..self.nodes.len() {
            if self.nodes[place].is_none() {
                self.started += 1;
                let name = format!("node-{place}-{}", self.started);
                self.nodes[place] = Node::start(name, &self.env, &self.world).await.ok().map(Arc::new);
            }
        }
    }

    /// A writer that pushes a few rows to a random node, now and then the same rows again.
    async fn write(&mut self) {
        let place = self.env.random_below(self.nodes.len() as u64) as usize;
        let Some(node) = self.nodes[place].clone() else { return };
        let count = 1 + self.env.random_below(20);
        let stream = format!("s{}", self.env.random_below(4));
        let late_ns = self.env.random_below(3) as i64 * self.env.random_below(7_200_000_000_000) as i64;
        let rows: Vec<WrittenRow> = (0..count)
            .map(|n| {
                let line = format!("row {} of {stream}", self.written + n);
                WrittenRow { timestamp: self.env.now_ns() - late_ns + n as i64, line }
            })
            .collect();
        self.written += count;
        let (oracle, env) = (Arc::clone(&self.oracle), self.env.clone());
        let lock = move || Arc::clone(&oracle);
        for row in &rows {
            lock().lock().unwrap_or_else(PoisonError::into_inner).sent(&row.line);
        }
        let again = self.env.random_below(4) == 0;
        let writer = self.env.spawn("writer", async move {
            for _ in 0..1 + u32::from(again) {
                env.sleep(Duration::from_millis(env.random_below(2_000))).await;
                if node.push(&stream, &rows).await.is_ok() {
                    let oracle = lock();
                    let mut oracle = oracle.lock().unwrap_or_else(PoisonError::into_inner);
                    rows.iter().for_each(|row| oracle.acknowledged(&row.line));
                }
            }
        });
        self.writers.retain(|writer| !writer.is_finished());
        self.writers.push(writer);
    }

    /// Something happens to a random node, or nothing.
    async fn trouble(&mut self) {
        let place = self.env.random_below(self.nodes.len() as u64) as usize;
        match self.env.random_below(6) {
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
                    // A flush may fail while the store does; the background tries again.
                    let _ = node.engine.flush().await;
                }
            }
            3 => self.env.set_clock_skew(
                Duration::from_secs(self.env.random_below(300)),
                self.env.random_below(2) == 0,
            ),
            _ => {}
        }
    }

    /// Ends a node as a power cut does, with the writers that wait for it.
    fn kill(&mut self, place: usize) {
        let Some(node) = self.nodes[place].take() else { return };
        self.kills += 1;
        // Writers hold the node too: a killed process answers nobody.
        self.writers.clear();
        drop(node);
    }

    async fn check_readers(&self, all: bool) -> Result<()> {
        for node in self.nodes.iter().flatten() {
            match node.lines().await {
                Ok(lines) => self.oracle().check(&node.name, &lines, all)?,
                // While the store fails a query may fail too, but it must say so.
                Err(error) if all => return Err(error),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// No more faults: everything that was acknowledged must be found by everyone, and by a node that
    /// starts from nothing but the bucket.
    async fn calm_down(&mut self) -> Result<()> {
        self.world.quiet(true);
        self.env.set_clock_skew(Duration::ZERO, true);
        let place = self.env.random_below(self.nodes.len() as u64) as usize;
        self.kill(place);
        self.world.settle().await;
        self.start_missing().await;
        if self.nodes.iter().any(Option::is_none) {
            bail!("a node does not start over a store that works");
        }
        for writer in self.writers.drain(..) {
            writer.join().await?;
        }
        self.env.sleep(QUIET).await;
        self.check_readers(true).await.context("after the faults ended")?;
        for node in self.nodes.iter().flatten() {
            node.engine.flush().await.context("a flush over a store that works")?;
        }
        self.check_readers(true).await.context("after a flush")?;
        let fresh = Node::start("fresh".to_owned(), &self.env, &self.world).await?;
        self.env.sleep(Duration::from_secs(5)).await;
        let found = fresh.lines().await?;
        self.oracle().check("a fresh node", &found, true)?;
        self.check_store().await
    }

    /// Every reference of the catalog leads to an object.
    async fn check_store(&self) -> Result<()> {
        let store = Store::from_object_store(self.world.objects(), self.env.clone(), StoreOptions::default());
        let report = sandur_catalog::check(&store, &self.env).await?;
        if !report.is_undamaged() {
            bail!("the store is damaged: {:?}", report.findings);
        }
        Ok(())
    }
}
