//! A running relay: lines are received, routed and queued in lanes, from which workers deliver them.
//!
//! **Invariants.** Receiving a line never waits for a target. Lines for which memory and disk have no
//! room are dropped and counted, so an unreachable target does not delay others. Lanes, connections and
//! open intervals of aggregation rules each reserve memory from a budget ([`Memory`]).

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_carbon::{Refusal, Sink};
use sandur_runtime::Env;

use crate::aggregation::{Aggregation, Computed};
use crate::clean::{clean, clean_line};
use crate::counters::{Counters, TargetCounters};
use crate::hash::jump::{bucket, rehash};
use crate::invalid_log::InvalidLog;
use crate::lane::{CHUNK_BYTES, Lane};
use crate::line::{Point, parse};
use crate::memory::Memory;
use crate::model::aggregate::Output;
use crate::model::{NAME_BYTES_MAX, Stage, Validation};
use crate::router::{End, RouteSink, Router, Scratch};

/// Bytes of a buffer that a source may keep for a lane.
const KEPT_BYTES: usize = 4 << 10;
const COMPUTE_EVERY: Duration = Duration::from_secs(1);

/// Receives lines. Cheap to clone.
#[derive(Clone)]
pub struct Relay(Arc<Inner>);

struct Inner {
    env: Env,
    router: Router,
    targets: Vec<Outgoing>,
    counters: Counters,
    invalid_log: InvalidLog,
    connections: std::sync::atomic::AtomicU64,
    aggregation: Mutex<Aggregation>,
    host: String,
}

/// A target and its lanes.
pub(crate) struct Outgoing {
    pub(crate) lanes: Vec<Arc<Lane>>,
    pub(crate) live: Arc<AtomicBool>,
    pub(crate) counters: Arc<TargetCounters>,
}

/// Routes the lines of one source and buffers them for the lanes.
pub struct Sorter {
    relay: Relay,
    scratch: Option<Scratch>,
    /// The current line after its name was cleaned.
    cleaned: Vec<u8>,
    /// The data of the current point, where a stage has a condition on it.
    data: Vec<u8>,
    /// Buffered lines and their number of points, by target and lane.
    lanes: Vec<Vec<(Vec<u8>, u32)>>,
    /// Target and lane of the buffers that are not empty.
    filled: Vec<(usize, usize)>,
}

impl Relay {
    /// A relay over these targets. `host` is the host's name in its own metrics.
    pub(crate) fn new(
        env: &Env,
        router: Router,
        targets: Vec<Outgoing>,
        memory: &Memory,
        host: &str,
    ) -> Self {
        Self(Arc::new(Inner {
            env: env.clone(),
            router,
            targets,
            counters: Counters::default(),
            invalid_log: InvalidLog::default(),
            connections: Default::default(),
            aggregation: Mutex::new(Aggregation::new(&memory.aggregations)),
            host: host.replace('.', "_"),
        }))
    }

    /// Makes a sorter for one source of lines.
    pub fn sorter(&self) -> Sorter {
        let lanes = self.0.targets.iter().map(|target| vec![(Vec::new(), 0); target.lanes.len()]).collect();
        let (relay, scratch) = (self.clone(), Some(Scratch::default()));
        Sorter { relay, scratch, cleaned: Vec::new(), data: Vec::new(), lanes, filled: Vec::new() }
    }

    /// Returns the counters of the relay.
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Returns the counters of a target.
    pub fn target_counters(&self, target: usize) -> Option<&TargetCounters> {
        self.0.targets.get(target).map(|target| &*target.counters)
    }

    /// Returns whether a target is reachable.
    pub fn is_live(&self, target: usize) -> bool {
        self.0.targets.get(target).is_some_and(|target| target.live.load(Ordering::Relaxed))
    }

    /// The number of connections that send to this relay.
    pub(crate) fn connections(&self) -> &std::sync::atomic::AtomicU64 {
        &self.0.connections
    }

    fn now(&self) -> i64 {
        self.0.env.now_ns() / 1_000_000_000
    }

    /// Computes the due intervals of aggregation rules, every second.
    pub(crate) async fn aggregate(self) {
        let mut sorter = self.sorter();
        loop {
            self.0.env.sleep(COMPUTE_EVERY).await;
            sorter.compute();
        }
    }

    /// Sends the relay's own metrics periodically.
    pub(crate) async fn report(self) {
        let Some(every) = self.0.router.routing().statistics.every else { return };
        let mut sorter = self.sorter();
        loop {
            self.0.env.sleep(every).await;
            sorter.report();
        }
    }
}

impl Sorter {
    /// Processes one line without its line end.
    pub fn take(&mut self, line: &[u8]) {
        if !self.relay.0.router.routing().cleans_names {
            return self.take_line(line);
        }
        let mut cleaned = std::mem::take(&mut self.cleaned);
        clean_line(line, &mut cleaned);
        self.take_line(&cleaned);
        self.cleaned = cleaned;
    }

    /// Processes complete messages of a protocol.
    pub fn take_messages(&mut self, protocol: &sandur_carbon::Protocol, messages: &[u8]) {
        let now = self.relay.now();
        // A sorter never stops the reading.
        let _ = (protocol.read)(messages, now, self);
    }

    fn take_line(&mut self, line: &[u8]) {
        match parse(line, self.relay.now()) {
            Ok(Some(point)) => self.arrived(point),
            Ok(None) => {}
            Err(reason) => {
                self.relay.0.counters.rejected.add(1);
                let line = String::from_utf8_lossy(&line[..line.len().min(200)]);
                tracing::debug!(%reason, %line, "a line is not a point");
            }
        }
    }

    /// Routes a received point. If the relay cleans names, its name is clean already.
    fn arrived(&mut self, mut point: Point<'_>) {
        self.relay.0.counters.received.add(1);
        if self.relay.0.router.routing().cleans_names {
            let end = memchr::memchr(b';', point.name).unwrap_or(point.name.len());
            (point.name, point.tags) = point.name.split_at(end);
        }
        self.route(&point, 0, None);
    }

    /// Runs the stages from index `first` on, or sends to clusters directly.
    fn route(&mut self, point: &Point<'_>, first: usize, clusters: Option<&[usize]>) {
        let relay = self.relay.clone();
        let Some(mut scratch) = self.scratch.take() else { return };
        let mut hands = Sorting { point, sorter: self };
        match clusters {
            None => relay.0.router.route(first, point.name, &mut scratch, &mut hands),
            Some(clusters) => {
                let router = &relay.0.router;
                clusters.iter().for_each(|one| router.send_to(*one, point.name, &mut scratch, &mut hands));
            }
        }
        self.scratch = Some(scratch);
    }

    /// Moves the buffered lines to the lanes.
    pub fn flush(&mut self) {
        let now = self.relay.0.env.monotonic();
        for (target, lane) in std::mem::take(&mut self.filled) {
            self.hand_over(target, lane, now);
        }
    }

    fn hand_over(&mut self, target: usize, lane: usize, now: Duration) {
        let outgoing = &self.relay.0.targets[target];
        let (lines, points) = &mut self.lanes[target][lane];
        match outgoing.lanes[lane].push(lines, *points, now) {
            Some(bytes) => outgoing.counters.queued.most(bytes as u64),
            None => outgoing.counters.dropped.add(u64::from(*points)),
        }
        // There may be many sources, most of which send little, so none keeps a large buffer per target.
        match lines.capacity() > KEPT_BYTES {
            true => *lines = Vec::new(),
            false => lines.clear(),
        }
        *points = 0;
    }

    fn send(&mut self, target: usize, name: &[u8], point: &Point<'_>) {
        let lanes = self.lanes[target].len();
        let lane = if lanes == 1 { 0 } else { bucket(rehash(hash_of(name)), lanes) };
        self.relay.0.targets[target].counters.attempted.add(1);
        let (lines, points) = &mut self.lanes[target][lane];
        if lines.is_empty() {
            self.filled.push((target, lane));
        }
        point.write(name, lines);
        *points += 1;
        if lines.len() >= CHUNK_BYTES {
            self.filled.retain(|own| *own != (target, lane));
            let now = self.relay.0.env.monotonic();
            self.hand_over(target, lane, now);
        }
    }

    fn compute(&mut self) {
        let (relay, now) = (self.relay.clone(), self.relay.now());
        let stages = &relay.0.router.routing().stages;
        let mut computed = Vec::new();
        let rule = |stage: usize| match stages.get(stage) {
            Some(Stage::Aggregate(aggregate)) => Some(aggregate.clone()),
            _ => None,
        };
        // All sources add to the open intervals, so the lock is released before values are computed and
        // sorted.
        let mut open = relay.0.aggregation.lock().unwrap_or_else(PoisonError::into_inner);
        let due = open.take_due(&rule, now);
        drop(open);
        due.compute(&mut computed);
        for Computed { stage, name, value, time } in computed {
            let Some(Stage::Aggregate(rule)) = stages.get(stage) else { continue };
            relay.0.counters.computed.add(1);
            match &rule.output {
                Output::Stage(first) => self.made(&name, value, time, *first, None),
                Output::Clusters(clusters) => self.made(&name, value, time, 0, Some(clusters)),
            }
        }
        self.flush();
    }

    /// Routes a point that the relay computed.
    fn made(&mut self, name: &[u8], value: f64, time: i64, first: usize, clusters: Option<&[usize]>) {
        self.route(&Point::of(name, value, time as f64), first, clusters);
    }

    fn report(&mut self) {
        let (relay, now) = (self.relay.clone(), self.relay.now());
        let statistics = &relay.0.router.routing().statistics;
        let prefix = statistics.prefix.replace("HOST", &relay.0.host);
        let clusters = statistics.clusters.as_deref();
        let mut all: Vec<(String, f64)> = Vec::new();
        let own = relay.0.counters.named();
        all.extend(own.map(|(name, counter)| (name.to_owned(), counter.take() as f64)));
        all.push(("activeConnections".to_owned(), relay.0.connections.load(Ordering::Relaxed) as f64));
        for (target, outgoing) in relay.0.router.routing().targets.iter().zip(&relay.0.targets) {
            let name = target.metric_name();
            let waiting: usize = outgoing.lanes.iter().map(|lane| lane.bytes()).sum();
            all.push((format!("destinations.{name}.queuedBytes"), waiting as f64));
            let counted = outgoing.counters.named();
            all.extend(
                counted.map(|(own, counter)| (format!("destinations.{name}.{own}"), counter.take() as f64)),
            );
        }
        for (name, value) in all {
            self.made(format!("{prefix}.{name}").as_bytes(), value, now, 0, clusters);
        }
        self.flush();
    }
}

fn hash_of(name: &[u8]) -> u64 {
    u64::from(crate::hash::fnv1a::fnv1a_32(name)) | 1 << 40
}

impl Sink for Sorter {
    fn point(&mut self, point: sandur_carbon::Point<'_>) -> ControlFlow<()> {
        let is_name = point.name.len() <= NAME_BYTES_MAX && !point.name.is_empty();
        if !is_name || point.name.contains(char::is_whitespace) {
            self.relay.0.counters.rejected.add(1);
            return ControlFlow::Continue(());
        }
        let mut cleaned = std::mem::take(&mut self.cleaned);
        cleaned.clear();
        match self.relay.0.router.routing().cleans_names {
            true => drop(clean(point.name.as_bytes(), &mut cleaned)),
            false => cleaned.extend_from_slice(point.name.as_bytes()),
        }
        self.arrived(Point::of(&cleaned, point.value, point.seconds));
        self.cleaned = cleaned;
        ControlFlow::Continue(())
    }

    fn refused(&mut self, refusal: Refusal, message: &[u8]) {
        self.relay.0.counters.rejected.add(1);
        let message = String::from_utf8_lossy(&message[..message.len().min(200)]);
        tracing::debug!(reason = refusal.reason().name(), %message, "a message is not a point");
    }
}

/// One point that is being routed.
struct Sorting<'a, 'b> {
    point: &'a Point<'a>,
    sorter: &'b mut Sorter,
}

impl RouteSink for Sorting<'_, '_> {
    fn is_live(&self, target: usize) -> bool {
        self.sorter.relay.is_live(target)
    }

    fn is_valid(&mut self, validation: &Validation, name: &[u8]) -> bool {
        let Sorter { data, relay, .. } = &mut *self.sorter;
        data.clear();
        self.point.write_data(data);
        let is_valid = validation.data.matches(data);
        if !is_valid {
            relay.0.counters.invalid_data.add(1);
            if validation.logs {
                relay.0.invalid_log.point(name, data, relay.0.env.monotonic());
            }
        }
        is_valid
    }

    fn send(&mut self, target: usize, name: &[u8]) {
        self.sorter.send(target, name, self.point);
    }

    fn aggregate(&mut self, stage: usize, compute: usize, name: &[u8]) {
        let inner = Arc::clone(&self.sorter.relay.0);
        let Some(Stage::Aggregate(rule)) = inner.router.routing().stages.get(stage) else { return };
        let now = self.sorter.relay.now();
        let point = (self.point.time, self.point.value);
        let mut open = inner.aggregation.lock().unwrap_or_else(PoisonError::into_inner);
        if !open.add((stage, compute), rule, name, point, now) {
            inner.counters.not_computed.add(1);
        }
    }

    fn ended(&mut self, end: End) {
        let counters = &self.sorter.relay.0.counters;
        match end {
            End::Blocked => counters.blocked.add(1),
            End::NotAllowed => counters.not_allowed.add(1),
            End::Unrouted => counters.unrouted.add(1),
            End::Invalid | End::Nowhere => {}
        }
    }
}
