//! Follows the other processes of a bucket: their catalog commits, their WAL, their heartbeats.
//!
//! One task polls about once a second for the catalog's next entry and for the next WAL segment of every
//! other unsealed writer, and puts that writer's rows into heads of this process. So queries here see
//! the rows of all writers. A writer without a heartbeat for a long time is adopted.
//!
//! **Bounds.** Rows of other writers take at most a part of the write budget. When it is used up, a
//! writer is not followed further until its own flushes have made room. Meanwhile answers carry a
//! warning that newer rows of it are missing.
//!
//! **Invariants.** Segments are read in the order of their numbers, without a gap. The catalog's
//! [`sandur_catalog::Members`] decides which writers are silent; clocks of processes are not compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream::StreamExt;
use sandur_base::{Id, Lane, Task};
use sandur_catalog::Snapshot;
use sandur_format::catalog_entry::WalKind;
use sandur_format::wal_segment::FrameId;
use sandur_store::{Error as StoreError, Intent};

use crate::error::Error;
use crate::head::Inserted;
use crate::upkeep::adoption::read_frame::{ReadFrame, WhenFull};
use crate::view::floor_of;
use crate::writing::shared::Shared;
use crate::writing::wal::{self, frame};

/// The most segments that are fetched concurrently while catching up.
const READ_AHEAD: usize = 8;
/// Polls without a new segment after which a writer is polled less often.
const IDLE_POLLS: u32 = 10;

/// The position up to which a writer's WAL was read.
pub(crate) struct WriterTail {
    incarnation: Id,
    next: u64,
    fenced: bool,
}

/// The outcome of reading a WAL to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaughtUp {
    /// The next segment is not there yet.
    Yes {
        /// The number of segments that were read.
        segments: u64,
    },
    /// The writer is fenced: no segment will follow.
    Fenced {
        /// The number of the fence.
        fence: u64,
    },
    /// There is no memory for more rows.
    OutOfMemory,
}

impl WriterTail {
    /// The tail of a writer whose rows below `next` are in heads or blocks.
    pub(crate) fn new(incarnation: Id, next: u64) -> Self {
        Self { incarnation, next, fenced: false }
    }

    pub(crate) fn incarnation(&self) -> Id {
        self.incarnation
    }

    /// The number of the next segment.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Reads segments into the writer's head until the next one does not exist yet.
    pub(crate) async fn read(&mut self, shared: &Shared, when_full: WhenFull) -> Result<CaughtUp, Error> {
        let floor = floor_of(&shared.views.current().snapshot, self.incarnation);
        if floor == u64::MAX {
            return Ok(CaughtUp::Yes { segments: 0 });
        }
        self.next = self.next.max(floor);
        let (mut segments, mut ahead) = (0, 1);
        while !self.fenced {
            let from = self.next;
            let mut fetches = Vec::with_capacity(ahead);
            for sequence in from..from + ahead as u64 {
                fetches.push(fetch(shared, self.incarnation, sequence));
            }
            let mut fetched = futures_util::stream::iter(fetches).buffered(READ_AHEAD);
            while let Some(segment) = fetched.next().await {
                let Some(bytes) = segment? else {
                    return Ok(CaughtUp::Yes { segments });
                };
                if !self.take(shared, bytes, when_full).await? {
                    return Ok(CaughtUp::OutOfMemory);
                }
                segments += 1;
                if self.fenced {
                    break;
                }
            }
            ahead = READ_AHEAD;
        }
        Ok(CaughtUp::Fenced { fence: self.next })
    }

    /// Puts the rows of the next segment into the head. Returns false when there is no memory for them.
    async fn take(&mut self, shared: &Shared, bytes: Bytes, when_full: WhenFull) -> Result<bool, Error> {
        let (incarnation, sequence) = (self.incarnation, self.next);
        let path = wal::path(incarnation, sequence);
        let frame = {
            let (path, bytes) = (path.clone(), bytes.clone());
            let open = move || frame::of_object(FrameId { incarnation, sequence }, &path, bytes);
            shared.env.run_cpu(Lane::Query, open).await
        };
        let read = match frame {
            Ok(frame) if frame::is_fence(&frame) => {
                self.fenced = true;
                return Ok(true);
            }
            Ok(frame) => shared.read_frame(incarnation, frame, &bytes, when_full).await?,
            Err(error) => {
                tracing::error!(%error, "acknowledged rows in a WAL segment are damaged");
                shared.keep_damaged(&path, bytes.clone()).await;
                ReadFrame::Batches(Vec::new())
            }
        };
        let reserved = match read {
            ReadFrame::Batches(batches) => batches,
            ReadFrame::OutOfMemory => return Ok(false),
            ReadFrame::Damaged(error) => {
                tracing::error!(path, %error, "acknowledged rows in a WAL segment are damaged");
                shared.keep_damaged(&path, bytes).await;
                Vec::new()
            }
        };
        for inserted in shared.views.insert(incarnation, sequence, reserved) {
            if let Inserted::Logs(batch) = inserted {
                shared.followers.deliver(batch.batch());
            }
        }
        shared.metrics.followed_segments.inc();
        self.next += 1;
        Ok(true)
    }
}

async fn fetch(shared: &Shared, incarnation: Id, sequence: u64) -> Result<Option<Bytes>, StoreError> {
    match shared.store.get(&wal::path(incarnation, sequence), Intent::wal()).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A live writer that is followed.
struct Followed {
    tail: WriterTail,
    idle_polls: u32,
}

/// Follows all other writers of the bucket.
pub(crate) struct WriterFollower {
    shared: Arc<Shared>,
    followed: BTreeMap<Id, Followed>,
    adoptions: BTreeMap<Id, Task<()>>,
    ticks: u64,
}

impl WriterFollower {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, followed: BTreeMap::new(), adoptions: BTreeMap::new(), ticks: 0 }
    }

    /// Polls until the engine stops.
    pub(crate) async fn run(mut self) {
        let mut is_failing = false;
        while self.shared.pause(self.shared.options.poll_interval).await {
            match (self.tick().await, is_failing) {
                (Ok(()), _) => is_failing = false,
                (Err(error), false) => {
                    tracing::warn!(%error, "the catalog could not be followed; it is tried again and again");
                    is_failing = true;
                }
                (Err(error), true) => tracing::debug!(%error, "the catalog could not be followed"),
            }
        }
    }

    /// Polls the catalog and all writers once.
    pub(crate) async fn tick(&mut self) -> Result<(), Error> {
        self.ticks += 1;
        let snapshot = self.shared.catalog.refresh().await?;
        self.shared.publish(Arc::clone(&snapshot));
        self.reconcile(&snapshot);
        let (shared, ticks) = (&self.shared, self.ticks);
        let idle_ticks = idle_ticks(shared);
        let is_due =
            |followed: &&mut Followed| followed.idle_polls < IDLE_POLLS || ticks.is_multiple_of(idle_ticks);
        let polls = self.followed.values_mut().filter(is_due).map(|followed| followed.poll(shared));
        join_all(polls).await;
        self.adopt_silent();
        Ok(())
    }

    /// Follows exactly the unsealed writers other than this process that are not being adopted.
    fn reconcile(&mut self, snapshot: &Snapshot) {
        let own = self.shared.incarnation();
        self.adoptions.retain(|_, task| !task.is_finished());
        let writers = snapshot.writers().values();
        let wanted: BTreeSet<Id> = writers
            .filter(|writer| !writer.is_sealed() && writer.incarnation != own)
            .filter(|writer| writer.wal == WalKind::Bucket)
            .map(|writer| writer.incarnation)
            .filter(|incarnation| !self.adoptions.contains_key(incarnation))
            .collect();
        self.followed.retain(|incarnation, _| wanted.contains(incarnation));
        for incarnation in wanted {
            let next = || self.shared.views.next_of(incarnation);
            self.followed
                .entry(incarnation)
                .or_insert_with(|| Followed { tail: WriterTail::new(incarnation, next()), idle_polls: 0 });
        }
        self.shared.metrics.followed_writers.set(self.followed.len() as i64);
    }

    /// Starts the adoption of writers that have been silent for too long. Each live process waits longer
    /// than the one before it, so that usually only one of them does the work.
    fn adopt_silent(&mut self) {
        let shared = &self.shared;
        let Some(members) = shared.members() else { return };
        let own = shared.incarnation();
        let alive = self.followed.keys().filter(|incarnation| !members.is_presumed_dead(**incarnation));
        let rank = alive.filter(|incarnation| **incarnation < own).count() as u32;
        let patience = shared.options.dead_after + shared.options.heartbeat_interval / 2 * rank;
        let is_silent = |incarnation: &Id| {
            members.is_presumed_dead(*incarnation)
                && members.silent_for(*incarnation).is_some_and(|silence| silence >= patience)
        };
        let silent: Vec<Id> = self.followed.keys().copied().filter(is_silent).collect();
        for incarnation in silent {
            let Some(followed) = self.followed.remove(&incarnation) else { continue };
            let shared = Arc::clone(&self.shared);
            let adoption = async move {
                if !shared.await_dead_before(incarnation).await {
                    return;
                }
                if let Err(error) = shared.adopt(followed.tail).await {
                    tracing::warn!(%incarnation, %error, "a silent writer could not be adopted yet");
                }
                shared.views.set_missing(incarnation, None);
            };
            self.adoptions.insert(incarnation, self.shared.env.spawn("adoption", adoption));
        }
    }
}

/// An idle writer is polled once per this number of ticks.
fn idle_ticks(shared: &Shared) -> u64 {
    let interval = shared.options.poll_interval.as_millis().max(1);
    (shared.options.poll_idle_interval.as_millis() / interval).max(1) as u64
}

impl Followed {
    async fn poll(&mut self, shared: &Shared) {
        let incarnation = self.tail.incarnation;
        match self.tail.read(shared, WhenFull::Stop).await {
            Ok(CaughtUp::Yes { segments: 0 }) => {
                self.idle_polls = self.idle_polls.saturating_add(1);
                shared.views.set_missing(incarnation, None);
            }
            Ok(CaughtUp::Yes { .. }) => {
                self.idle_polls = 0;
                shared.views.set_missing(incarnation, None);
            }
            Ok(CaughtUp::Fenced { .. }) => {}
            Ok(CaughtUp::OutOfMemory) => {
                let limit = sandur_base::units::ByteSize(shared.followed_budget.limit());
                let missing = format!(
                    "the newest rows of writer {incarnation} are missing: rows of other writers exceed \
                     the memory budget 'followed writers' of {limit}; raise --memory-limit"
                );
                shared.views.set_missing(incarnation, Some(missing));
            }
            Err(error) => {
                tracing::warn!(%incarnation, %error, "the WAL of another writer could not be read");
                let missing = format!("the newest rows of writer {incarnation} are missing: {error}");
                shared.views.set_missing(incarnation, Some(missing));
            }
        }
    }
}
