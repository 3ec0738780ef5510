//! Follows the other processes of a bucket: their catalog commits, their WAL, their heartbeats.
//!
//! One task polls about once a second for the catalog's next entry. Each other unsealed writer has a task of
//! its own, which polls for the writer's next WAL segment and puts its rows into heads of this process. So
//! queries here see the rows of all writers, and a WAL that is read slowly delays no other one. A writer
//! without a heartbeat for a long time is adopted by its task.
//!
//! Processes that hear announcements of others ([`sandur_catalog::Hints`]) read when something is announced.
//! They poll what is announced by a live process at the longest interval that keeps its age within its bound.
//!
//! **Bounds.** Rows of other writers take at most a part of the write budget
//! ([`crate::upkeep::adoption::memory`]). When it is used up, a writer is not followed further until its own
//! flushes have made room. Meanwhile answers carry a warning that newer rows of it are missing. Concurrent
//! reads are bounded ([`crate::upkeep::adoption::read_slots`]).
//!
//! **Invariants.** Segments are read in the order of their numbers, without a gap. The catalog's
//! [`sandur_catalog::Members`] decides which writers are silent; clocks of processes are not compared.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_runtime::Task;
use tokio::sync::{Notify, watch};

use crate::error::Error;
use crate::followed::{EndOfWal, Trouble};
use crate::reading::freshness::Freshness;
use crate::upkeep::adoption::other_writers::OtherWriters;
use crate::upkeep::adoption::pace::{Intervals, Pace};
use crate::upkeep::adoption::read_frame::WhenFull;
use crate::upkeep::adoption::read_slots::Speed;
use crate::upkeep::adoption::tail::{CaughtUp, WriterTail};
use crate::view::floor_of;

/// How long a writer may use slots of fast reads without a new segment. Near stores answer much sooner.
const FAST_TURN: Duration = Duration::from_secs(2);
/// How long a read of a slow WAL is awaited: several attempts of the store's client.
const SLOW_TURN: Duration = Duration::from_secs(30);
/// A writer that says sooner than this that it has no new frame is asked again after the usual pause.
const TOLD_PAUSE: Duration = Duration::from_millis(250);
/// How long a start waits until the rows of all writers are known.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// The task that follows one writer.
struct Follower {
    _task: Task<()>,
    adoption: Arc<Adoption>,
}

/// The request to adopt a writer.
#[derive(Default)]
struct Adoption {
    requested: Notify,
    is_under_way: AtomicBool,
}

/// Follows all other writers of the bucket.
pub(crate) struct WriterFollower {
    others: Arc<OtherWriters>,
    followers: BTreeMap<Id, Follower>,
}

impl WriterFollower {
    pub(crate) fn new(others: Arc<OtherWriters>) -> Self {
        Self { others, followers: BTreeMap::new() }
    }

    /// Begins to follow all writers, and waits a bounded time until their rows are known.
    pub(crate) async fn start(&mut self, freshness: &Freshness) -> Result<(), Error> {
        let others = Arc::clone(&self.others);
        let (env, followed) = (&others.node.env, &others.node.followed);
        let began = env.monotonic();
        self.tick().await?;
        let whole = env.timeout(START_PATIENCE, async {
            let mut whole = pin!(freshness.bring_up_to(began, false));
            loop {
                tokio::select! {
                    () = &mut whole => return,
                    () = followed.appeared.notified() => self.reconcile(),
                }
            }
        });
        if whole.await.is_none() {
            let missing = followed.incomplete(began).1.len();
            tracing::warn!(missing, "rows of other writers are not known yet, answers say so");
            // Nobody else has read the catalog meanwhile.
            self.tick().await?;
        }
        Ok(())
    }

    /// Polls until the engine stops.
    pub(crate) async fn run(mut self) {
        let mut is_failing = false;
        let others = Arc::clone(&self.others);
        let interval = others.writer.options.poll_interval;
        let told_interval = Intervals::of(&others.writer.options).told();
        let stops = others.node.shutdown.signal();
        let mut due = others.node.env.monotonic() + interval;
        let mut news = others.writer.options.hints.as_ref().map(|hints| hints.news());
        loop {
            let now = others.node.env.monotonic();
            tokio::select! {
                () = heard(&mut news) => {
                    others.read_announced();
                    continue;
                }
                () = others.node.followed.announced.notified() => {}
                () = stops.triggered() => return,
                () = others.node.followed.appeared.notified() => {
                    self.reconcile();
                    continue;
                }
                () = others.node.env.sleep(due.saturating_sub(now)) => {}
            }
            match (self.tick().await, is_failing) {
                (Ok(()), _) => is_failing = false,
                (Err(error), false) => {
                    tracing::warn!(%error, "the catalog could not be followed; it is tried again and again");
                    is_failing = true;
                }
                (Err(error), true) => tracing::debug!(%error, "the catalog could not be followed"),
            }
            let is_told = others.node.followed.are_told() || others.are_announcing();
            let interval = if is_told { told_interval } else { interval };
            due = others.node.env.monotonic() + interval;
        }
    }

    /// Polls the catalog once, and begins to follow new writers and to adopt dead ones.
    pub(crate) async fn tick(&mut self) -> Result<(), Error> {
        let node = &self.others.node;
        node.catalog.poll().await?;
        let (at, snapshot) = node.catalog.known();
        self.others.writer.publish(Arc::clone(&snapshot));
        self.others.writer.observe_nodes();
        self.others.forget_sealed(&snapshot);
        node.followed.note_catalog(at, &snapshot);
        self.reconcile();
        self.adopt_dead(&snapshot);
        Ok(())
    }

    /// Has a task for each other writer that is not sealed.
    fn reconcile(&mut self) {
        let others = &self.others;
        let wanted = others.node.followed.writers();
        let ids: Vec<Id> = wanted.iter().map(|(id, _)| *id).collect();
        others.memory.divide(&ids);
        self.followers.retain(|id, _| ids.contains(id));
        for (id, read_now) in wanted {
            self.followers.entry(id).or_insert_with(|| {
                let adoption = Arc::<Adoption>::default();
                let one = OneFollower::new(Arc::clone(others), id, read_now, Arc::clone(&adoption));
                Follower { _task: others.node.env.spawn("writer-follower", one.run()), adoption }
            });
        }
        others.node.metrics.followed_writers.set(self.followers.len() as i64);
    }

    /// Starts the adoption of dead writers. Placement chooses the process that begins; the second choice and
    /// the others wait longer, in case that it does not.
    fn adopt_dead(&mut self, snapshot: &Snapshot) {
        let others = &self.others;
        let Some(members) = others.writer.membership.members() else { return };
        for (id, Follower { adoption, .. }) in &self.followers {
            let is_due = others.adopts(snapshot, &members, *id);
            if is_due && !adoption.is_under_way.swap(true, Ordering::AcqRel) {
                adoption.requested.notify_one();
            }
        }
    }
}

/// Completes when other processes announce something.
async fn heard(news: &mut Option<watch::Receiver<u64>>) {
    let is_heard = match news {
        Some(news) => news.changed().await.is_ok(),
        None => false,
    };
    if !is_heard {
        pending::<()>().await;
    }
}

/// Follows one writer.
struct OneFollower {
    others: Arc<OtherWriters>,
    tail: WriterTail,
    intervals: Intervals,
    pace: Pace,
    speed: Speed,
    /// Bytes of the next rows, if there was no memory for them.
    lacks: Option<u64>,
    is_failing: bool,
    read_now: Arc<Notify>,
    adoption: Arc<Adoption>,
}

impl OneFollower {
    fn new(others: Arc<OtherWriters>, writer: Id, read_now: Arc<Notify>, adoption: Arc<Adoption>) -> Self {
        let tail = WriterTail::new(writer, others.node.views.next_of(writer));
        let (intervals, pace) = (Intervals::of(&others.writer.options), Pace::default());
        let (speed, lacks, is_failing) = (Speed::Fast, None, false);
        Self { others, tail, intervals, pace, speed, lacks, is_failing, read_now, adoption }
    }

    /// Polls until the task is dropped.
    async fn run(mut self) {
        let adoption = Arc::clone(&self.adoption);
        loop {
            tokio::select! {
                biased;
                () = adoption.requested.notified() => {
                    self.adopt().await;
                    adoption.is_under_way.store(false, Ordering::Release);
                }
                () = self.turn() => {}
            }
        }
    }

    /// Polls once, and waits until the next poll is due. May be dropped at any time.
    async fn turn(&mut self) {
        if self.poll().await {
            return;
        }
        let others = &self.others;
        let is_queried = others.node.followed.is_queried() || others.writer.followers.count() > 0;
        let pause = match others.announces(self.tail.incarnation()) {
            true => self.intervals.longest(is_queried),
            false => self.pace.pause(&self.intervals, is_queried),
        };
        let _ = others.node.env.timeout(pause, self.read_now.notified()).await;
    }

    /// Adopts the writer, and polls as usual until earlier dead writers are sealed.
    async fn adopt(&mut self) {
        let (others, writer) = (Arc::clone(&self.others), self.tail.incarnation());
        let mut is_first = pin!(others.writer.await_dead_before(writer));
        let is_to_be_adopted = loop {
            tokio::select! {
                biased;
                is_to_be_adopted = &mut is_first => break is_to_be_adopted,
                () = self.turn() => {}
            }
        };
        if is_to_be_adopted && let Err(error) = Box::pin(others.adopt(&mut self.tail)).await {
            tracing::warn!(incarnation = %writer, %error, "a silent writer could not be adopted yet");
        }
    }

    /// Reads the writer's WAL for one turn. Returns whether to continue at once.
    async fn poll(&mut self) -> bool {
        let (others, writer) = (Arc::clone(&self.others), self.tail.incarnation());
        if self.still_lacks_memory() {
            return false;
        }
        let (env, before) = (others.node.env.clone(), self.tail.next());
        let (began, turn) = (env.monotonic(), if self.speed == Speed::Fast { FAST_TURN } else { SLOW_TURN });
        let read = Box::pin(self.tail.read(&others, WhenFull::Stop, self.speed));
        let read = env.timeout(turn, read).await;
        let (ended, next) = (env.monotonic(), self.tail.next());
        let took = ended.saturating_sub(began);
        let Some(read) = read else {
            if next > before {
                // It is being read, and other writers have their turn now.
                return true;
            }
            self.speed = Speed::Slow;
            let reason = format!("its WAL is read slowly, the last read took more than {}s", took.as_secs());
            others.node.followed.note_trouble(writer, next, Trouble::Unread(reason));
            return true;
        };
        if took < FAST_TURN {
            self.speed = Speed::Fast;
        }
        // A writer that is asked waits for its next frame, so it is asked again at once.
        let is_told = matches!(read, Ok(CaughtUp::Yes { by_writer: true, .. }));
        self.note(read, (ended, next));
        is_told && (next > before || took >= TOLD_PAUSE)
    }

    /// Whether there is still no memory for the next rows. Without memory they are not read again.
    fn still_lacks_memory(&mut self) -> bool {
        let (writer, next) = (self.tail.incarnation(), self.tail.next());
        let Some(bytes) = self.lacks else { return false };
        let is_flushed = floor_of(&self.others.node.views.current().snapshot, writer) > next;
        if is_flushed || self.others.memory.may_fit(writer, bytes) {
            self.lacks = None;
        }
        self.lacks.is_some()
    }

    /// Notes the outcome of a read that ended with segment `next`.
    fn note(&mut self, read: Result<CaughtUp, Error>, (ended, next): (Duration, u64)) {
        let (others, writer) = (&self.others, self.tail.incarnation());
        let followed = &others.node.followed;
        let is_failed = read.is_err();
        match read {
            Ok(CaughtUp::Yes { segments, as_of, by_writer }) => {
                self.pace.polled(segments);
                others.memory.note_fit(writer);
                match by_writer {
                    true => followed.note_told(writer, as_of, next),
                    false => followed.note_end(writer, EndOfWal { began: as_of, ended, next }),
                }
            }
            Ok(CaughtUp::Fenced { fence }) => {
                others.note_fence(writer);
                self.pace.polled(0);
                others.memory.note_fit(writer);
                followed.note_end(writer, EndOfWal { began: ended, ended, next: fence });
            }
            Ok(CaughtUp::OutOfMemory { bytes }) => {
                self.lacks = Some(bytes);
                followed.note_trouble(writer, next, Trouble::OutOfMemory(others.memory.refusal()));
            }
            Err(error) => {
                match self.is_failing {
                    false => {
                        tracing::warn!(incarnation = %writer, %error, "another writer's WAL cannot be read")
                    }
                    true => {
                        tracing::debug!(incarnation = %writer, %error, "another writer's WAL cannot be read")
                    }
                }
                followed.note_trouble(writer, next, Trouble::Unread(error.to_string()));
            }
        }
        self.is_failing = is_failed;
    }
}
