//! One seeded run of many nodes that have wrong views of each other: groups that do not reach each other,
//! members that flap, clocks that are apart, nodes that are killed or cut off from the store.
//!
//! Every answer is judged when it comes: a row is never found twice, and a row that was acknowledged five
//! seconds before the query began is there, or the answer warns. Afterwards everything heals; every node
//! then finds every acknowledged row, all nodes agree who owns what, and no node owns more than
//! [`SHARE_MAX`] times its share.

mod claims;
mod town;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_model::Signal;
use sandur_runtime::{Env, Task};
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};

use crate::node::Node;
use crate::row::{Content, Row};
use claims::{Answer, Claims};
pub use town::Resident;
use town::{BELIEFS, Belief, Town};

/// The start of simulated time: 2026-11-21 00:00 UTC.
const START_NS: i64 = 1_795_219_200_000_000_000;
/// The age of the view above which answers warn.
const PERMITTED_AGE: Duration = Duration::from_secs(5);
/// The largest share of the work of a node, in relation to the mean.
const SHARE_MAX: f64 = 1.05;
/// How long after the faults dead processes may still be registered, nodes disagree on members, or answers
/// warn. Adoption takes 40 s; a node that was fenced by mistake registers again.
const RECOVERY_MAX: Duration = Duration::from_secs(300);
/// The interval at which this is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The most requests to the store: each of 50 nodes follows 49 others.
const REQUESTS_MAX: u64 = 2_000_000;
/// The limit of simulated time of a run. A longer run retries something endlessly.
const RUN_MAX: Duration = Duration::from_secs(2 * 3_600);
/// A push that takes longer is sent to another node.
const PUSH_PATIENCE: Duration = Duration::from_secs(15);
/// Queries of a round.
const QUERIES: usize = 8;
/// The largest error of a clock.
const CLOCK_S: u64 = 120;
const ZONES: usize = 3;

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct FleetSize {
    pub nodes: usize,
    /// Rounds of writes, faults and queries.
    pub rounds: u64,
}

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetOutcome {
    /// Rows that were sent, and acknowledged.
    pub rows: (usize, usize),
    /// Answers, and those that warned.
    pub answers: (u64, u64),
    /// Nodes that were killed.
    pub kills: u64,
    /// The age of the oldest row that an answer without a warning lacked.
    pub oldest_silent: Duration,
    /// Requests to the store.
    pub requests: u64,
}

/// Runs one seed to its end. An error is a violated invariant.
pub fn run_fleet(seed: u64, size: FleetSize) -> Result<FleetOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let outcome = runtime.block_on(async move {
        let fleet = Fleet::new(seed, size);
        let (env, world) = (fleet.env.clone(), fleet.world.clone());
        match env.timeout(RUN_MAX, fleet.play()).await {
            _ if world.is_exhausted() => bail!("the run sent more than {REQUESTS_MAX} requests to the store"),
            None => bail!("the run did not end within {RUN_MAX:?} of simulated time"),
            Some(outcome) => outcome,
        }
    });
    outcome.with_context(|| format!("seed {seed} (repeat it with `sandur-sim --fleet 1 --first {seed}`)"))
}

struct Fleet {
    env: Env,
    world: FaultStore,
    town: Arc<Town>,
    size: FleetSize,
    nodes: Vec<Option<Arc<Node>>>,
    claims: Arc<Mutex<Claims>>,
    writers: Vec<Task<()>>,
    starts: u64,
    written: u64,
    answers: (u64, u64),
    kills: u64,
    oldest_silent: Duration,
}

impl Fleet {
    fn new(seed: u64, size: FleetSize) -> Self {
        let env = Env::simulated(seed, START_NS);
        let plan = match env.random_below(3) {
            0 => FaultPlan::some_faults(),
            _ => FaultPlan::latency_only(),
        };
        let world = FaultStore::new(env.clone(), seed ^ 0xF1EE7, plan);
        world.expect_requests(REQUESTS_MAX);
        Self {
            env,
            world,
            town: Town::new(size.nodes),
            size,
            nodes: vec![None; size.nodes],
            claims: Arc::default(),
            writers: Vec::new(),
            starts: 0,
            written: 0,
            answers: (0, 0),
            kills: 0,
            oldest_silent: Duration::ZERO,
        }
    }

    async fn play(mut self) -> Result<FleetOutcome> {
        for _ in 0..self.size.rounds {
            self.start_missing().await;
            self.disturb();
            for _ in 0..1 + self.size.nodes / 4 {
                self.write();
            }
            for _ in 0..QUERIES {
                self.env.sleep(Duration::from_millis(self.env.random_below(1_500))).await;
                self.ask_one().await?;
            }
        }
        self.heal().await?;
        let claims = lock(&self.claims).counts();
        Ok(FleetOutcome {
            rows: claims,
            answers: self.answers,
            kills: self.kills,
            oldest_silent: self.oldest_silent,
            requests: self.world.requests(),
        })
    }

    /// Starts the nodes that are missing, each with a clock of its own. A node stays missing if the store
    /// fails just then.
    async fn start_missing(&mut self) {
        for place in 0..self.nodes.len() {
            if self.nodes[place].is_some() {
                continue;
            }
            self.starts += 1;
            let wrong_s = self.env.random_below(2 * CLOCK_S) as i64 - CLOCK_S as i64;
            let now_ns = self.env.now_ns() + wrong_s * 1_000_000_000;
            let env = Env::simulated(self.env.random_u64(), now_ns);
            let resident = Resident { town: Arc::clone(&self.town), node: place, env: env.clone() };
            let name = format!("node-{place}-{}", self.starts);
            let zone = format!("zone-{}", place % ZONES);
            let resident = (Arc::new(resident), Town::address(place), zone);
            if let Ok(node) = Node::start_resident(name, &env, &self.world, resident).await {
                self.town.house(place, &node.engine);
                self.nodes[place] = Some(Arc::new(node));
            }
        }
    }

    /// Changes the network, what some nodes believe, and who is cut off or killed.
    fn disturb(&mut self) {
        let groups = 1 + self.env.random_below(3);
        let is_calm = self.env.random_below(4) == 0;
        for place in 0..self.nodes.len() {
            let group = if is_calm { 0 } else { self.env.random_below(groups) };
            let belief = match self.env.random_below(3) {
                0 if !is_calm => BELIEFS[self.env.random_below(BELIEFS.len() as u64) as usize],
                _ => Belief::Right,
            };
            self.town.place(place, group, belief);
            if let Some(node) = &self.nodes[place] {
                node.cut(self.env.random_below(12) == 0);
            }
        }
        for _ in 0..self.env.random_below(2 + self.size.nodes as u64 / 12) {
            let place = self.env.random_below(self.nodes.len() as u64) as usize;
            // Its writers send their rows to other nodes.
            self.kills += u64::from(self.nodes[place].take().is_some());
        }
    }

    /// Starts a writer that pushes rows to random nodes until one acknowledges them.
    fn write(&mut self) {
        let signal = Signal::ALL[self.env.random_below(2) as usize];
        let stream = format!("s{}", self.env.random_below(6));
        let (first, count) = (self.written, 1 + self.env.random_below(8));
        self.written += count;
        let row = |number: u64| {
            // All rows of a stream have different times.
            let ms = self.env.now_ns() / 1_000_000 + (number - first) as i64;
            let timestamp = ms / 1_000 * 1_000_000_000 + (number % 1_000) as i64 * 1_000_000;
            let content = match signal {
                Signal::Logs => Content::Line(format!("row {number}")),
                Signal::Metrics => Content::Float { bits: (number as f64).to_bits(), start: 0 },
            };
            Row { stream: stream.clone(), timestamp, content }
        };
        let rows: Vec<Row> = (first..first + count).map(row).collect();
        for row in &rows {
            lock(&self.claims).sent(signal, row.found().identity);
        }
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.as_ref().map(Arc::downgrade)).collect();
        let (claims, env) = (Arc::clone(&self.claims), self.env.clone());
        let writer = self.env.spawn("writer", async move {
            for _ in 0..10 {
                env.sleep(Duration::from_millis(env.random_below(1_000))).await;
                let place = env.random_below(nodes.len() as u64) as usize;
                // A node that is dropped answers no more pushes, like a process that is killed.
                let Some(node) = nodes[place].as_ref().and_then(std::sync::Weak::upgrade) else { continue };
                let pushed = env.timeout(PUSH_PATIENCE, node.push(signal, &stream, &rows)).await;
                if pushed.is_some_and(|pushed| pushed.is_ok()) {
                    let now = env.monotonic();
                    rows.iter().for_each(|row| lock(&claims).acknowledged(&row.found().identity, now));
                    // Sometimes it is sent again all the same, as a pair of agents does.
                    if env.random_below(3) > 0 {
                        return;
                    }
                }
            }
        });
        self.writers.retain(|writer| !writer.is_finished());
        self.writers.push(writer);
    }

    /// Asks a random node for all rows of a signal. A query may fail.
    async fn ask_one(&mut self) -> Result<()> {
        let place = self.env.random_below(self.nodes.len() as u64) as usize;
        let Some(node) = self.nodes[place].clone() else { return Ok(()) };
        let signal = Signal::ALL[self.env.random_below(2) as usize];
        let began = self.env.monotonic();
        let Ok((rows, warning)) = node.answer(signal).await else { return Ok(()) };
        self.answers.0 += 1;
        self.answers.1 += u64::from(warning.is_some());
        let (node, warning) = (node.name.as_str(), warning.as_deref());
        let answer = Answer { node, signal, rows: &rows, began, permitted_age: PERMITTED_AGE, warning };
        let oldest = lock(&self.claims).check(&answer)?;
        if warning.is_none() {
            self.oldest_silent = self.oldest_silent.max(oldest);
        }
        Ok(())
    }

    /// Ends all faults. Then every node must find every acknowledged row, without a warning.
    async fn heal(&mut self) -> Result<()> {
        self.world.quiet(true);
        self.world.settle().await;
        for place in 0..self.nodes.len() {
            self.town.place(place, 0, Belief::Right);
            if let Some(node) = &self.nodes[place] {
                node.cut(false);
            }
        }
        self.start_missing().await;
        if self.nodes.iter().any(Option::is_none) {
            bail!("a node does not start although the store works");
        }
        for writer in self.writers.drain(..) {
            writer.join().await?;
        }
        let deadline = self.env.monotonic() + RECOVERY_MAX;
        while let Err(error) = self.check_shares().await {
            if self.env.monotonic() > deadline {
                return Err(error.context(format!("{RECOVERY_MAX:?} after the faults ended")));
            }
            self.env.sleep(LOOK_EVERY).await;
        }
        for signal in Signal::ALL {
            for node in self.nodes.iter().flatten() {
                self.check_complete(node, signal, deadline + RECOVERY_MAX).await?;
            }
        }
        let store = Store::from_object_store(self.world.objects(), self.env.clone(), StoreOptions::default());
        let report = sandur_catalog::check(&store, &self.env).await?;
        if !report.is_undamaged() {
            bail!("the store is damaged: {:?}", report.findings);
        }
        Ok(())
    }

    /// The node must find every acknowledged row. While it warns, it is asked again.
    async fn check_complete(&self, node: &Node, signal: Signal, deadline: Duration) -> Result<()> {
        let permitted_age = Duration::ZERO;
        loop {
            let began = self.env.monotonic();
            let (rows, warning) = node.answer(signal).await?;
            let (name, warning) = (node.name.as_str(), warning.as_deref());
            let answer = Answer { node: name, signal, rows: &rows, began, permitted_age, warning };
            lock(&self.claims).check(&answer).context("after the faults ended")?;
            let Some(warning) = warning else { return Ok(()) };
            if self.env.monotonic() > deadline {
                bail!("{name} still warns: {warning}");
            }
            self.env.sleep(LOOK_EVERY).await;
        }
    }

    /// All nodes must agree on the shares, and no share may be too large.
    async fn check_shares(&self) -> Result<()> {
        let mut views = BTreeSet::new();
        for node in self.nodes.iter().flatten() {
            let report = node.engine.report_nodes().await;
            let shares: Vec<(String, String)> =
                report.nodes.iter().map(|node| (node.id.clone(), format!("{:?}", node.shares))).collect();
            views.insert(shares);
            let mean = 100.0 / self.size.nodes as f64;
            for (id, role, share) in report
                .nodes
                .iter()
                .flat_map(|node| node.shares.iter().map(|(role, share)| (&node.id, role, *share)))
            {
                // A slot is the smallest piece of a share.
                if share > mean * SHARE_MAX + 100.0 / 16_384.0 {
                    bail!("{id} has {share} % of {role:?}, the mean is {mean} %");
                }
            }
            if report.nodes.len() != self.size.nodes {
                bail!("{} sees {} nodes of {}", node.name, report.nodes.len(), self.size.nodes);
            }
        }
        if views.len() > 1 {
            bail!("nodes disagree on shares: {views:?}");
        }
        Ok(())
    }
}

fn lock(claims: &Mutex<Claims>) -> MutexGuard<'_, Claims> {
    claims.lock().unwrap_or_else(PoisonError::into_inner)
}
