//! A run: starts everything, plays the plan, and compares at the end.
//!
//! Invariants: a node is under one fault of processes at a time; a process that ends by itself is a
//! finding, unless it could not reach the bucket while it started.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal as ProcessSignal;
use sandur_attack::free_address;
use sandur_s3_server::S3Server;

use crate::client::Request;
use crate::ledger::Ledger;
use crate::links::{Between, Links, Passage};
use crate::node::{Node, Setup, check};
use crate::plan::{Fault, Kind, draw};
use crate::proxies::{self, Processes, Real};
use crate::report::{Timeline, Verdict};
use crate::signals::SIGNALS;
use crate::traffic::{Shared, write};
use crate::watching::{compare, watch};

/// How long nodes may take to start, to stop, or to show all rows. Far longer than they need.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A stop that takes longer than this while the bucket is cut off becomes a kill.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);
const WATCHERS: u64 = 3;

/// What is run.
#[derive(Clone, Debug)]
pub struct Options {
    pub program: PathBuf,
    /// The address of the S3 server.
    pub bucket: SocketAddr,
    /// The folder of the bucket, which nobody else uses.
    pub bucket_folder: String,
    pub nodes: usize,
    pub faults: usize,
    pub seed: u64,
    /// Whether the nodes have a secret, and so speak to each other.
    pub has_secret: bool,
    /// The folder of logs. It must not exist. It is removed unless there are findings.
    pub folder: PathBuf,
}

/// Sets a flag when it is dropped, by a panic or an early return too.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a plan. An error means that it could not be carried out.
pub fn run(options: &Options) -> Result<Verdict> {
    if options.nodes == 0 {
        bail!("a run needs nodes");
    }
    std::fs::create_dir_all(&options.folder)?;
    let mut course = Course::start(options)?;
    let mut verdict = course.play(&draw(options.seed, options.faults, options.nodes))?;
    for (_, ledger) in &course.shared.ledgers {
        let (sent, acknowledged) = ledger.counts();
        verdict.sent += sent;
        verdict.acknowledged += acknowledged;
    }
    drop(course);
    if verdict.findings.is_empty() {
        std::fs::remove_dir_all(&options.folder)?;
    }
    Ok(verdict)
}

struct Course {
    setup: Arc<Setup>,
    links: Arc<Links>,
    shared: Arc<Shared>,
    nodes: Vec<State>,
    /// The store as the S3 server has it.
    store: String,
}

struct State {
    node: Node,
    /// The clock of its next process.
    clock_ms: i64,
    is_busy: bool,
    /// The process has not been seen ready.
    is_starting: bool,
    /// When SIGTERM was sent.
    stopping: Option<Instant>,
}

/// A fault that has begun.
struct Active {
    number: usize,
    place: usize,
    kind: Kind,
    /// The node whose process is concerned.
    node: Option<usize>,
    ends: Instant,
}

#[allow(clippy::disallowed_methods)] // real time and threads, outside of the product
impl Course {
    fn start(options: &Options) -> Result<Self> {
        let real = |_| Ok(Real { http: free_address()?, gossip: free_address()? });
        let real = (0..options.nodes).map(real).collect::<Result<Vec<Real>>>()?;
        let (links, processes) = (Arc::<Links>::default(), Arc::<Processes>::default());
        let fronts = proxies::start(&real, options.bucket, &links, &processes)?;
        let setup = Arc::new(Setup {
            program: options.program.clone(),
            bucket: options.bucket_folder.clone(),
            has_secret: options.has_secret,
            folder: options.folder.clone(),
            processes,
        });
        let mut nodes = Vec::new();
        for (number, (real, front)) in real.iter().zip(fronts).enumerate() {
            let node = Node::new(number, &setup, *real, front)?;
            nodes.push(State { node, clock_ms: 0, is_busy: false, is_starting: true, stopping: None });
        }
        let shared = Arc::new(Shared {
            nodes: real.iter().map(|real| real.http).collect(),
            ledgers: SIGNALS.map(|signal| (signal, Ledger::default())).into(),
            timeline: Timeline::default(),
            writers_stop: AtomicBool::new(false),
            watchers_stop: AtomicBool::new(false),
        });
        let store = S3Server::url(&options.bucket.to_string(), &options.bucket_folder);
        let mut course = Self { setup, links, shared, nodes, store };
        for state in &mut course.nodes {
            state.node.start(0)?;
        }
        course.wait_until_ready()?;
        Ok(course)
    }

    fn play(&mut self, plan: &[Fault]) -> Result<Verdict> {
        let shared = Arc::clone(&self.shared);
        let shared = &*shared;
        thread::scope(|scope| {
            // A panic here would wait for the threads for ever.
            let (_stops_writers, _stops_watchers) =
                (Stops(&shared.writers_stop), Stops(&shared.watchers_stop));
            let writers = (0..).zip(&shared.ledgers);
            let writers: Vec<_> =
                writers.map(|(seed, of)| scope.spawn(move || write(shared, of, seed))).collect();
            let watchers: Vec<_> =
                (0..WATCHERS).map(|seed| scope.spawn(move || watch(shared, seed))).collect();
            let played = self.play_faults(plan);
            shared.writers_stop.store(true, Ordering::Relaxed);
            for writer in writers {
                // A panic of a writer is one of the run.
                writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?;
            }
            let ended = played.and_then(|()| self.compare());
            shared.watchers_stop.store(true, Ordering::Relaxed);
            for watcher in watchers {
                watcher.join().map_err(|_| anyhow::anyhow!("a watcher panicked"))?;
            }
            ended
        })?;
        self.stop_and_check()?;
        Ok(self.shared.timeline.verdict())
    }

    /// Plays the plan, and heals everything.
    fn play_faults(&mut self, plan: &[Fault]) -> Result<()> {
        let start = Instant::now();
        let (mut waiting, mut active): (Vec<(usize, &Fault)>, Vec<Active>) = (Vec::new(), Vec::new());
        waiting.extend(plan.iter().enumerate().rev());
        while (!waiting.is_empty() || !active.is_empty()) && !self.shared.timeline.has_findings() {
            if let Some((number, fault)) = waiting.last().filter(|(_, fault)| start.elapsed() >= fault.at)
                && let Some(begun) = self.begin(*number, fault)?
            {
                active.push(begun);
                waiting.pop();
            }
            let mut left = Vec::new();
            for fault in active {
                if Instant::now() < fault.ends || !self.end(&fault)? {
                    left.push(fault);
                }
            }
            active = left;
            self.look_after()?;
            thread::sleep(LOOK_EVERY);
        }
        for fault in &active {
            while !self.end(fault)? {
                thread::sleep(LOOK_EVERY);
            }
        }
        self.wait_until_ready()
    }

    /// Begins a fault. `None` if all nodes that it could concern are under another one.
    fn begin(&mut self, number: usize, fault: &Fault) -> Result<Option<Active>> {
        let mut node = None;
        if matches!(fault.kind, Kind::Kill | Kind::Pause | Kind::Restart | Kind::Clock) {
            let wanted = fault.nodes[0];
            let in_turn = (0..self.nodes.len()).map(|n| (wanted + n) % self.nodes.len());
            let Some(free) = in_turn.into_iter().find(|&n| !self.nodes[n].is_busy) else { return Ok(None) };
            node = Some(free);
            self.nodes[free].is_busy = true;
        }
        let place = self.shared.timeline.began(fault.kind, Instant::now());
        let cut = if fault.closes { Passage::Closed } else { Passage::Stalled };
        match (fault.kind, node) {
            (Kind::Pause, Some(node)) => self.signal(node, ProcessSignal::STOP)?,
            (Kind::Restart, Some(node)) => {
                if fault.drains {
                    let drain = Request::post("/sandur/cluster/drain", &[], Vec::new());
                    // A node that cannot reach the bucket refuses it, and stops all the same.
                    let _ = drain.send(self.shared.nodes[node], DRAIN_PATIENCE);
                }
                self.signal(node, ProcessSignal::TERM)?;
                self.nodes[node].stopping = Some(Instant::now());
            }
            (kind, Some(node)) => {
                self.nodes[node].node.kill()?;
                if kind == Kind::Clock {
                    self.nodes[node].clock_ms = fault.clock_ms;
                }
            }
            (Kind::StoreSlow, None) => {
                let bucket = Between::NodesAndBucket(fault.nodes.clone());
                self.links.add(number, bucket, Passage::Slow(fault.delay));
            }
            (Kind::PeersCut, None) => {
                self.links.add(number, Between::NodesAndOthers(fault.nodes.clone()), cut);
            }
            (kind, None) => {
                self.links.add(number, Between::NodesAndBucket(fault.nodes.clone()), cut);
                if kind == Kind::ZoneCut {
                    self.links.add(number, Between::NodesAndOthers(fault.nodes.clone()), cut);
                }
            }
        }
        Ok(Some(Active { number, place, kind: fault.kind, node, ends: Instant::now() + fault.length }))
    }

    /// Ends a fault. Returns whether it has ended: a node that stops may need more time.
    fn end(&mut self, fault: &Active) -> Result<bool> {
        if let Some(number) = fault.node {
            match fault.kind {
                Kind::Pause => self.signal(number, ProcessSignal::CONT)?,
                Kind::Restart if !self.has_stopped(number)? => return Ok(false),
                _ => self.start_node(number)?,
            }
            self.nodes[number].is_busy = false;
        }
        self.links.remove(fault.number);
        self.shared.timeline.ended(fault.place, Instant::now());
        Ok(true)
    }

    /// Whether a node that was told to stop has stopped. Without the bucket it cannot; then it is killed.
    fn has_stopped(&mut self, number: usize) -> Result<bool> {
        let is_cut = self.is_cut(number);
        let state = &mut self.nodes[number];
        let Some(since) = state.stopping else { return Ok(true) };
        if let Some(status) = state.node.ended()? {
            state.stopping = None;
            // A process that was told to stop while it started has no code to return.
            if !status.success() && !is_cut && !state.is_starting {
                self.shared.timeline.finding(format!("node {number} stopped with {status}"));
            }
            return Ok(true);
        }
        if since.elapsed() > if is_cut { STOP_PATIENCE } else { PATIENCE } {
            if !is_cut {
                self.shared.timeline.finding(format!("node {number} did not stop within {PATIENCE:?}"));
            }
            state.stopping = None;
            state.node.kill()?;
            return Ok(true);
        }
        Ok(false)
    }

    fn start_node(&mut self, number: usize) -> Result<()> {
        let state = &mut self.nodes[number];
        state.is_starting = true;
        state.node.start(state.clock_ms)
    }

    fn is_cut(&self, number: usize) -> bool {
        let (node, bucket) = (crate::links::Party::Node(number), crate::links::Party::Bucket);
        self.links.passage(node, bucket) != Passage::Open
    }

    fn signal(&self, node: usize, signal: ProcessSignal) -> Result<()> {
        self.nodes[node].node.signal(signal)
    }

    /// Starts processes again that could not reach the bucket while they started. Others that ended are
    /// findings.
    fn look_after(&mut self) -> Result<()> {
        for number in 0..self.nodes.len() {
            let state = &mut self.nodes[number];
            if state.stopping.is_some() || !state.node.has_process() {
                continue;
            }
            if let Some(status) = state.node.ended()? {
                if !state.is_starting {
                    self.shared.timeline.finding(format!("node {number} ended by itself with {status}"));
                }
                self.start_node(number)?;
            } else if state.is_starting && !state.is_busy {
                let ready = Request::get("/ready".to_owned()).send(state.node.address, LOOK_EVERY);
                state.is_starting = !ready.is_ok_and(|answer| answer.status == 200);
            }
        }
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        for number in 0..self.nodes.len() {
            loop {
                self.look_after()?;
                let answer = Request::get("/ready".to_owned()).send(self.shared.nodes[number], PATIENCE);
                if answer.is_ok_and(|answer| answer.status == 200) {
                    self.nodes[number].is_starting = false;
                    break;
                }
                if began.elapsed() > PATIENCE {
                    let log = self.nodes[number].node.log();
                    bail!("node {number} is not ready after {PATIENCE:?}: {}", log.display());
                }
                thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    /// Asks every node for every row.
    fn compare(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for (number, &node) in self.shared.nodes.iter().enumerate() {
            if let Err(what) = compare(&self.shared, (number, node), deadline) {
                self.shared.timeline.finding(format!("after the faults: {what}"));
            }
        }
        Ok(())
    }

    /// Stops all nodes, and checks the store.
    fn stop_and_check(&mut self) -> Result<()> {
        for number in 0..self.nodes.len() {
            self.signal(number, ProcessSignal::TERM)?;
            self.nodes[number].stopping = Some(Instant::now());
        }
        for number in 0..self.nodes.len() {
            while !self.has_stopped(number)? {
                thread::sleep(LOOK_EVERY);
            }
        }
        let (is_sound, text) = check(&self.setup.program, &self.store).context("the store")?;
        if !is_sound || !text.contains("sound") {
            self.shared.timeline.finding(format!("`sandur check` says: {text}"));
        }
        Ok(())
    }
}
