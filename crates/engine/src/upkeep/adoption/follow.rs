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

use futures_util::future::join_all;
use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_format::catalog_entry::WalKind;
use sandur_runtime::Task;

use crate::error::Error;
use crate::upkeep::adoption::other_writers::OtherWriters;
use crate::upkeep::adoption::read_frame::WhenFull;
use crate::upkeep::adoption::tail::{CaughtUp, WriterTail};

/// Polls without a new segment after which a writer is polled less often.
const IDLE_POLLS: u32 = 10;

/// A live writer that is followed.
struct Followed {
    tail: WriterTail,
    idle_polls: u32,
}

/// Follows all other writers of the bucket.
pub(crate) struct WriterFollower {
    others: Arc<OtherWriters>,
    followed: BTreeMap<Id, Followed>,
    adoptions: BTreeMap<Id, Task<()>>,
    ticks: u64,
}

impl WriterFollower {
    pub(crate) fn new(others: Arc<OtherWriters>) -> Self {
        Self { others, followed: BTreeMap::new(), adoptions: BTreeMap::new(), ticks: 0 }
    }

    /// Polls until the engine stops.
    pub(crate) async fn run(mut self) {
        let mut is_failing = false;
        while self.others.node.pause(self.others.writer.options.poll_interval).await {
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
        let snapshot = self.others.node.catalog.refresh().await?;
        self.others.writer.publish(Arc::clone(&snapshot));
        self.reconcile(&snapshot);
        let (others, ticks) = (&self.others, self.ticks);
        let idle_ticks = idle_ticks(others);
        let is_due =
            |followed: &&mut Followed| followed.idle_polls < IDLE_POLLS || ticks.is_multiple_of(idle_ticks);
        let polls = self.followed.values_mut().filter(is_due).map(|followed| followed.poll(others));
        join_all(polls).await;
        self.adopt_silent();
        Ok(())
    }

    /// Follows exactly the unsealed writers other than this process that are not being adopted.
    fn reconcile(&mut self, snapshot: &Snapshot) {
        let own = self.others.writer.incarnation();
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
            let next = || self.others.node.views.next_of(incarnation);
            self.followed
                .entry(incarnation)
                .or_insert_with(|| Followed { tail: WriterTail::new(incarnation, next()), idle_polls: 0 });
        }
        self.others.node.metrics.followed_writers.set(self.followed.len() as i64);
    }

    /// Starts the adoption of writers that have been silent for too long. Each live process waits longer
    /// than the one before it, so that usually only one of them does the work.
    fn adopt_silent(&mut self) {
        let others = &self.others;
        let Some(members) = others.writer.membership.members() else { return };
        let own = others.writer.incarnation();
        let alive = self.followed.keys().filter(|incarnation| !members.is_presumed_dead(**incarnation));
        let rank = alive.filter(|incarnation| **incarnation < own).count() as u32;
        let patience = others.writer.membership.silent_after + others.writer.membership.beat / 2 * rank;
        let is_silent = |incarnation: &Id| {
            members.is_presumed_dead(*incarnation)
                && members.silent_for(*incarnation).is_some_and(|silence| silence >= patience)
        };
        let silent: Vec<Id> = self.followed.keys().copied().filter(is_silent).collect();
        for incarnation in silent {
            let Some(followed) = self.followed.remove(&incarnation) else { continue };
            let others = Arc::clone(&self.others);
            let adoption = async move {
                if !others.writer.await_dead_before(incarnation).await {
                    return;
                }
                if let Err(error) = others.adopt(followed.tail).await {
                    tracing::warn!(%incarnation, %error, "a silent writer could not be adopted yet");
                }
                others.node.views.set_missing(incarnation, None);
            };
            self.adoptions.insert(incarnation, self.others.node.env.spawn("adoption", adoption));
        }
    }
}

/// An idle writer is polled once per this number of ticks.
fn idle_ticks(others: &OtherWriters) -> u64 {
    let interval = others.writer.options.poll_interval.as_millis().max(1);
    (others.writer.options.poll_idle_interval.as_millis() / interval).max(1) as u64
}

impl Followed {
    async fn poll(&mut self, others: &OtherWriters) {
        let incarnation = self.tail.incarnation();
        match self.tail.read(others, WhenFull::Stop).await {
            Ok(CaughtUp::Yes { segments: 0 }) => {
                self.idle_polls = self.idle_polls.saturating_add(1);
                others.node.views.set_missing(incarnation, None);
            }
            Ok(CaughtUp::Yes { .. }) => {
                self.idle_polls = 0;
                others.node.views.set_missing(incarnation, None);
            }
            Ok(CaughtUp::Fenced { .. }) => {}
            Ok(CaughtUp::OutOfMemory) => {
                let limit = sandur_base::units::ByteSize(others.followed_budget.limit());
                let missing = format!(
                    "the newest rows of writer {incarnation} are missing: rows of other writers exceed \
                     the memory budget 'followed writers' of {limit}; raise --memory-limit"
                );
                others.node.views.set_missing(incarnation, Some(missing));
            }
            Err(error) => {
                tracing::warn!(%incarnation, %error, "the WAL of another writer could not be read");
                let missing = format!("the newest rows of writer {incarnation} are missing: {error}");
                others.node.views.set_missing(incarnation, Some(missing));
            }
        }
    }
}
