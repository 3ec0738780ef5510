//! The worker of one lane: connects, writes queued lines, and puts on disk what it cannot write.
//!
//! **Invariants.** Lines are sent in the order of arrival: first those that the last connection may have
//! lost, then those on disk, then those in memory. A line is put on disk only after all that arrived
//! before it. While the target is unreachable, lines move from memory to disk within a [`TICK`], so a
//! killed relay loses no more than the lines of a tick and what the target's system had not read.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandur_runtime::{Backoff, Env, ShutdownSignal};

use crate::connect::{Connection, Connector};
use crate::counters::TargetCounters;
use crate::lane::{Chunk, Lane};
use crate::model::{Protocol, Target};
use crate::outage::Outage;
use crate::pickle;
use crate::spool::{Batch, Spool};

/// How long lines stay in memory while they cannot be sent.
pub const TICK: Duration = Duration::from_millis(100);
/// Bytes that are read from a spool at once.
const REPLAY_BYTES: usize = 256 << 10;
/// Lines written last, up to this many bytes and up to `RESEND_AGE`, are sent again if the connection is
/// lost.
pub(crate) const RESEND_BYTES: usize = 1 << 20;
/// Bytes that a connection uses in addition to its queue: for lines read from its spool and for lines to
/// send again.
pub(crate) const WORKER_BYTES: u64 = 2 << 20;
const RESEND_AGE: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a stop waits for a target that still reads.
const DRAIN: Duration = Duration::from_secs(5);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

/// The parts of a worker.
pub(crate) struct Delivery {
    pub(crate) env: Env,
    pub(crate) target: Arc<Target>,
    pub(crate) lane: Arc<Lane>,
    pub(crate) live: Arc<AtomicBool>,
    pub(crate) counters: Arc<TargetCounters>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) stopping: ShutdownSignal,
    pub(crate) store: Store,
}

/// The lines outside of the lane.
pub(crate) struct Store {
    env: Env,
    lane: Arc<Lane>,
    counters: Arc<TargetCounters>,
    spool: Option<Spool>,
    /// Lines written before the connection was lost.
    resend: VecDeque<Chunk>,
    /// Lines written to this connection, with the time.
    written: VecDeque<(Chunk, Duration)>,
    written_bytes: usize,
    has_failed: bool,
}

/// The lines to write next.
enum Next {
    Chunk(Chunk),
    Spooled(Batch),
}

impl Next {
    fn lines(&self) -> (&[u8], u64) {
        match self {
            Self::Chunk(chunk) => (&chunk.lines, chunk.points.into()),
            Self::Spooled(batch) => (&batch.lines, batch.points),
        }
    }
}

impl Delivery {
    /// Runs until the shutdown.
    pub(crate) async fn run(mut self) {
        let mut pauses = BACKOFF.pauses();
        let mut outage = Outage::default();
        loop {
            let connecting = self.connector.connect(Arc::clone(&self.target));
            let connecting = unless_stopped(&self.stopping, self.env.timeout(CONNECT_TIMEOUT, connecting));
            let Some(connected) = self.store.while_spilling(connecting).await else { break };
            match connected {
                Some(Ok(connection)) => {
                    self.live.store(true, Ordering::Relaxed);
                    pauses.reset();
                    self.recovered(&mut outage);
                    let is_over = self.write_to(connection).await;
                    self.counters.disconnects.add(1);
                    if is_over {
                        break;
                    }
                    self.store.lost();
                    self.failed(&mut outage, "the connection was lost");
                }
                Some(Err(error)) => self.failed(&mut outage, error),
                None => self.failed(&mut outage, io::Error::from(io::ErrorKind::TimedOut)),
            }
            self.live.store(false, Ordering::Relaxed);
            let pause = self.env.sleep(pauses.after_failure_with_jitter(&self.env));
            if self.store.while_spilling(unless_stopped(&self.stopping, pause)).await.is_none() {
                break;
            }
        }
        self.store.keep_everything().await;
    }

    fn failed(&self, outage: &mut Outage, error: impl fmt::Display) {
        if outage.failed(self.env.monotonic()) {
            let spool_bytes = self.store.spool_bytes();
            tracing::warn!(target = %self.target.node, %error, spool_bytes, "cannot reach a target");
        }
    }

    fn recovered(&self, outage: &mut Outage) {
        if let Some(lasted) = outage.recovered(self.env.monotonic()) {
            let (seconds, spool_bytes) = (lasted.as_secs(), self.store.spool_bytes());
            tracing::info!(target = %self.target.node, seconds, spool_bytes, "a target is reachable again");
        }
    }

    /// Writes until the connection fails. Returns true if the relay is stopping and everything was
    /// written or the time to do so is over.
    async fn write_to(&mut self, mut connection: Box<dyn Connection>) -> bool {
        let is_over = self.write_all_to(&mut *connection).await;
        if is_over {
            // Everything was written, so a target that misses the close has lost nothing.
            let _ = self.env.timeout(CLOSE_TIMEOUT, connection.close()).await;
        }
        is_over
    }

    async fn write_all_to(&mut self, connection: &mut dyn Connection) -> bool {
        let mut bytes = Vec::new();
        let mut stop_at = None;
        loop {
            if self.stopping.is_triggered() && stop_at.is_none() {
                stop_at = Some(self.env.monotonic() + DRAIN);
            }
            let is_late = stop_at.is_some_and(|at| self.env.monotonic() >= at);
            let next = if is_late { None } else { self.store.next().await };
            let Some(next) = next else {
                if stop_at.is_some() {
                    return true;
                }
                let stopping = self.stopping.clone();
                tokio::select! {
                    biased;
                    () = connection.ended() => return false,
                    () = stopping.triggered() => {}
                    () = self.lane.wake.notified() => {}
                    () = self.env.sleep(TICK) => self.store.tick(),
                }
                continue;
            };
            let has_ended = tokio::select! {
                biased;
                () = connection.ended() => true,
                () = std::future::ready(()) => false,
            };
            let (lines, points) = next.lines();
            let outcome = if has_ended {
                None
            } else {
                encode(&self.target, lines, self.env.now_ns(), &mut bytes);
                let writing = self.env.timeout(WRITE_TIMEOUT, connection.write(&bytes));
                let late = late(&self.env, &self.stopping, stop_at);
                let writing = async {
                    tokio::select! {
                        biased;
                        outcome = writing => outcome,
                        () = late => None,
                    }
                };
                self.store.while_spilling(writing).await
            };
            if !matches!(outcome, Some(Ok(()))) {
                self.store.unsent(next);
                return false;
            }
            self.counters.sent.add(points);
            self.counters.batches.add(1);
            self.store.sent(next).await;
        }
    }
}

/// Waits for a future; returns `None` when the relay stops first. Only the wait is cancelled: a spool
/// call that is running completes, because the worker owns the spool.
async fn unless_stopped<T>(stopping: &ShutdownSignal, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = stopping.triggered() => None,
        outcome = future => Some(outcome),
    }
}

/// Completes when a stop must give up on a target that reads nothing.
async fn late(env: &Env, stopping: &ShutdownSignal, stop_at: Option<Duration>) {
    stopping.triggered().await;
    env.sleep(stop_at.map_or(DRAIN, |at| at.saturating_sub(env.monotonic()))).await;
}

/// Encodes lines in the target's protocol.
fn encode(target: &Target, lines: &[u8], now_ns: i64, out: &mut Vec<u8>) {
    out.clear();
    match target.protocol {
        Protocol::Line => out.extend_from_slice(lines),
        Protocol::Pickle => {
            let all: Vec<&[u8]> =
                lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
            for some in all.chunks(pickle::POINTS_MAX) {
                pickle::message(some, now_ns / 1_000_000_000, out);
            }
        }
    }
}

impl Store {
    pub(crate) fn new(
        env: Env,
        lane: Arc<Lane>,
        counters: Arc<TargetCounters>,
        spool: Option<Spool>,
    ) -> Self {
        let (resend, written) = (VecDeque::new(), VecDeque::new());
        Self { env, lane, counters, spool, resend, written, written_bytes: 0, has_failed: false }
    }

    /// Bytes on disk that wait for the target.
    fn spool_bytes(&self) -> u64 {
        self.spool.as_ref().map_or(0, Spool::bytes)
    }

    /// Waits for a future. Meanwhile lines that wait too long, or are too many, are moved to disk.
    async fn while_spilling<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let (env, lane) = (self.env.clone(), Arc::clone(&self.lane));
        loop {
            tokio::select! {
                biased;
                outcome = &mut future => return outcome,
                () = lane.crowded.notified() => {}
                () = env.sleep(TICK) => {}
            }
            self.spill(TICK).await;
            self.tick();
        }
    }

    /// Returns the lines to write next.
    async fn next(&mut self) -> Option<Next> {
        if let Some(chunk) = self.resend.pop_front() {
            return Some(Next::Chunk(chunk));
        }
        let has_spooled = self.spool.as_ref().is_some_and(|spool| !spool.is_empty());
        if has_spooled && let Some(batch) = self.with_spool(|spool| spool.peek(REPLAY_BYTES)).await.flatten()
        {
            return Some(Next::Spooled(batch));
        }
        self.lane.take().map(Next::Chunk)
    }

    /// Runs a call of the spool off the I/O threads.
    async fn with_spool<T: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut Spool) -> io::Result<T> + Send + 'static,
    ) -> Option<T> {
        let mut spool = self.spool.take()?;
        let (spool, outcome) = self
            .env
            .run_blocking(move || {
                let outcome = call(&mut spool);
                (spool, outcome)
            })
            .await;
        let spool = self.spool.insert(spool);
        self.counters.lost.add(spool.take_lost());
        match outcome {
            Ok(value) => {
                self.has_failed = false;
                Some(value)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::warn!(%error, "cannot use a spool; lines stay in memory as long as they fit");
                }
                None
            }
        }
    }

    /// Moves lines that wait longer than `age` to the end of the spool.
    async fn spill(&mut self, age: Duration) {
        let Some(spool) = &self.spool else { return };
        if spool.is_empty() {
            while let Some(chunk) = self.resend.pop_front() {
                if !self.put(&chunk).await {
                    return self.resend.push_front(chunk);
                }
            }
        } else {
            self.put_ahead().await;
        }
        let now = self.env.monotonic();
        while self.lane.oldest().is_some_and(|since| now.saturating_sub(since) >= age) {
            let Some(chunk) = self.lane.take() else { return };
            if !self.put(&chunk).await {
                return self.lane.put_back(chunk);
            }
        }
        if self.spool.as_ref().is_some_and(|spool| spool.is_sync_due(now)) {
            self.with_spool(move |spool| spool.sync_if_due(now)).await;
        }
    }

    /// Puts the lines that the last connection may have lost before those on disk.
    async fn put_ahead(&mut self) {
        if self.resend.is_empty() {
            return;
        }
        let chunks = Arc::new(std::mem::take(&mut self.resend));
        let put = Arc::clone(&chunks);
        let is_put = self.with_spool(move |spool| {
            spool.put_ahead(put.iter().map(|chunk| (chunk.lines.as_slice(), chunk.points)))
        });
        if is_put.await.is_some() {
            self.counters.spooled.add(chunks.iter().map(|chunk| u64::from(chunk.points)).sum());
        } else {
            self.resend = Arc::try_unwrap(chunks).unwrap_or_default();
        }
    }

    async fn put(&mut self, chunk: &Chunk) -> bool {
        let (lines, points, now) = (chunk.lines.clone(), chunk.points, self.env.monotonic());
        let is_put = self.with_spool(move |spool| spool.push(&lines, points, now)).await.is_some();
        if is_put {
            self.counters.spooled.add(points.into());
        }
        is_put
    }

    /// Forgets lines that were written long enough ago.
    fn tick(&mut self) {
        let now = self.env.monotonic();
        let is_old = |at: &Duration| now.saturating_sub(*at) >= RESEND_AGE;
        while self.written_bytes > RESEND_BYTES || self.written.front().is_some_and(|(_, at)| is_old(at)) {
            let Some((chunk, _)) = self.written.pop_front() else { return };
            self.written_bytes -= chunk.lines.len();
        }
    }

    async fn sent(&mut self, next: Next) {
        let chunk = match next {
            Next::Chunk(chunk) => chunk,
            Next::Spooled(batch) => {
                let points = u32::try_from(batch.points).unwrap_or(u32::MAX);
                let lines = batch.lines.clone();
                self.with_spool(move |spool| {
                    spool.confirm(&batch);
                    Ok(())
                })
                .await;
                Chunk { lines, points, since: Duration::ZERO, held: None }
            }
        };
        self.written_bytes += chunk.lines.len();
        self.written.push_back((chunk, self.env.monotonic()));
        self.tick();
    }

    /// Makes lines that could not be written the first to be written next.
    fn unsent(&mut self, next: Next) {
        // A batch of the spool is still in the spool.
        if let Next::Chunk(chunk) = next {
            self.resend.push_front(chunk);
        }
    }

    /// Handles a lost connection: what was written last may be lost and is sent again.
    fn lost(&mut self) {
        while let Some((chunk, _)) = self.written.pop_back() {
            self.resend.push_front(chunk);
        }
        self.written_bytes = 0;
    }

    /// Puts everything on disk.
    async fn keep_everything(&mut self) {
        self.written.clear();
        self.spill(Duration::ZERO).await;
        let left = self.lane.bytes() + self.resend.iter().map(|chunk| chunk.lines.len()).sum::<usize>();
        if left > 0 {
            tracing::warn!(bytes = left, "queued lines are lost: there is no --spool-dir, or no room in it");
        }
        self.with_spool(|spool| {
            spool.write_position();
            spool.sync_if_due(Duration::MAX)
        })
        .await;
    }
}
