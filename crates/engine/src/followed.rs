//! What this process knows of the rows of the other writers of a bucket, and since when.
//!
//! A read of a writer's WAL that began at `t` and found no segment `n` shows every row that the writer
//! acknowledged before `t`, because acknowledgements come in the order of segments. Segments below the
//! writer's floor may be deleted, so this holds only if the floor was not above `n` at that time. A read of
//! the catalog that began after the read of the WAL decides it. If its floor is not above `n`, all rows that
//! the writer acknowledged before `t` are in the view: those below the floor in blocks, the others in heads.
//! The writer is then *complete* as of `t`.
//!
//! A writer that sends its newest frames itself says where its WAL ends, and all frames before that end are
//! in the view then. So its answer needs no confirmation by the catalog.
//!
//! All times are of the monotonic clock of this process. Ages are computed when they are asked for, so a
//! process that was suspended knows how old its view is before any of its tasks has run again.
//!
//! **Invariants.** `note_catalog` is called after the snapshot was published to the view, so the view
//! contains what is said to be complete. A claim is made only by a read that began after the claimed time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_format::catalog_entry::WalKind;
use sandur_query::WriterLag;
use sandur_runtime::Env;
use tokio::sync::{Notify, watch};

use crate::view::floor_of;

/// A writer that answered within this time announces commits.
const TOLD_WITHIN: Duration = Duration::from_secs(3);
/// If nothing was queried for this long, writers without new rows are polled rarely.
const UNREAD_AFTER: Duration = Duration::from_secs(60);
/// If the catalog itself could not be read, writers are named only if they are older than it by this time.
const BEYOND_CATALOG: Duration = Duration::from_secs(2);

/// A read of a writer's WAL to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndOfWal {
    /// When the read began.
    pub(crate) began: Duration,
    /// When it ended.
    pub(crate) ended: Duration,
    /// The number of the segment that did not exist.
    pub(crate) next: u64,
}

/// Why rows of a writer cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The store does not answer in time, or fails.
    Unread(String),
    /// There is no memory for more rows. Rows are missing from this moment on.
    OutOfMemory(String),
}

/// What is known of one writer.
struct Known {
    /// All rows that it acknowledged before this time are in the view. `None`: this was never so.
    complete_at: Option<Duration>,
    /// The oldest and the newest read of its WAL that no read of the catalog has confirmed yet.
    unconfirmed: Vec<EndOfWal>,
    /// The number of the next segment to be read.
    next: u64,
    /// The number of its fence, after which it acknowledges nothing.
    fence: Option<u64>,
    trouble: Option<Trouble>,
    /// When it was last asked and answered.
    told_at: Option<Duration>,
    /// Whether a query has waited in vain for its rows; later ones do not wait.
    is_given_up: bool,
    /// Makes its follower read now.
    read_now: Arc<Notify>,
}

#[derive(Default)]
struct State {
    own: Option<Id>,
    /// The published snapshot contains everything that was committed before this.
    catalog_at: Option<Duration>,
    /// The number of the published snapshot.
    catalog_number: u64,
    is_catalog_given_up: bool,
    writers: BTreeMap<Id, Known>,
}

/// The other writers of a bucket, as far as this process knows them.
pub(crate) struct FollowedWriters {
    env: Env,
    state: Mutex<State>,
    /// Changes with every change of the state.
    changes: watch::Sender<u64>,
    /// Notified when the catalog lists a new writer.
    pub(crate) appeared: Notify,
    /// Notified when another process announces a newer catalog.
    pub(crate) announced: Notify,
    /// Monotonic time of the last query, in milliseconds, plus one; 0: none yet.
    asked_ms: AtomicU64,
}

/// How far the rows of another writer are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterShown {
    /// The incarnation of the writer.
    pub writer: Id,
    /// The number of the first WAL segment whose rows are not known.
    pub next: u64,
    /// How long ago all of its acknowledged rows were known; `None` if that was never so.
    pub age: Option<Duration>,
    /// Why its rows are not read, if they are not.
    pub reason: Option<String>,
}

impl FollowedWriters {
    pub(crate) fn new(env: Env) -> Self {
        let (state, changes) = (Mutex::default(), watch::Sender::new(0));
        Self {
            env,
            state,
            changes,
            appeared: Notify::new(),
            announced: Notify::new(),
            asked_ms: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Returns a receiver of the changes after this call.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Sets the incarnation under which this process writes from now on. Called before it is registered.
    pub(crate) fn set_own(&self, own: Id) {
        self.lock().own = Some(own);
    }

    /// Notes that the published snapshot contains everything that was committed before `at`.
    pub(crate) fn note_catalog(&self, at: Duration, snapshot: &Snapshot) {
        let mut state = self.lock();
        let before = state.catalog_at;
        if before.is_some_and(|before| before > at) {
            return;
        }
        let own = state.own;
        let is_other = |id: Id| Some(id) != own;
        let writers = snapshot.writers().values();
        let wanted: BTreeSet<Id> = writers
            .filter(|writer| !writer.is_sealed() && writer.wal == WalKind::Bucket)
            .map(|writer| writer.incarnation)
            .filter(|id| is_other(*id))
            .collect();
        state.writers.retain(|id, _| wanted.contains(id));
        let mut has_new = false;
        for id in wanted {
            let known = state.writers.entry(id).or_insert_with(|| {
                has_new = true;
                // It was not registered at the read before, so it had acknowledged nothing.
                Known::since(before)
            });
            known.confirm(at, floor_of(snapshot, id));
        }
        (state.catalog_at, state.is_catalog_given_up) = (Some(at), false);
        state.catalog_number = state.catalog_number.max(snapshot.number());
        drop(state);
        if has_new {
            self.appeared.notify_one();
        }
        self.changed();
    }

    /// Notes that the WAL of a writer was read to its end.
    pub(crate) fn note_end(&self, writer: Id, end: EndOfWal) {
        self.update(writer, |known| {
            known.trouble = None;
            known.next = end.next;
            known.unconfirmed.truncate(1);
            known.unconfirmed.push(end);
        });
    }

    /// Notes that a writer said at `as_of` or later that segment `next` was not there, and that the rows of
    /// all segments before it are in the view. It sent them itself, so the catalog need not confirm it.
    pub(crate) fn note_told(&self, writer: Id, as_of: Duration, next: u64) {
        self.update(writer, |known| {
            known.trouble = None;
            known.next = next;
            known.unconfirmed.clear();
            known.complete_at = known.complete_at.max(Some(as_of));
            known.told_at = Some(as_of);
            known.is_given_up = false;
        });
    }

    /// Makes the followers read whose writers announced segments that are not known.
    pub(crate) fn read_announced(&self, next_segment: impl Fn(Id) -> Option<u64>) {
        let state = self.lock();
        let has_more = |id: &Id, known: &Known| next_segment(*id).is_some_and(|next| next > known.next);
        state.writers.iter().filter(|(id, known)| has_more(id, known)).for_each(|(_, known)| {
            known.read_now.notify_one();
        });
    }

    /// Whether there are other writers and all of them match.
    pub(crate) fn are_all(&self, matches: impl Fn(Id) -> bool) -> bool {
        let state = self.lock();
        !state.writers.is_empty() && state.writers.keys().all(|id| matches(*id))
    }

    /// Notes that another process has read the catalog up to this number.
    pub(crate) fn note_announced(&self, number: u64) {
        if number > self.lock().catalog_number {
            self.announced.notify_one();
        }
    }

    /// Whether all other writers answered lately, so that commits are announced.
    pub(crate) fn are_told(&self) -> bool {
        let (state, now) = (self.lock(), self.env.monotonic());
        let is_told = |known: &Known| known.told_at.is_some_and(|at| now.saturating_sub(at) < TOLD_WITHIN);
        !state.writers.is_empty() && state.writers.values().all(is_told)
    }

    /// Notes that rows from segment `next` on could not be read.
    pub(crate) fn note_trouble(&self, writer: Id, next: u64, trouble: Trouble) {
        self.update(writer, |known| (known.next, known.trouble) = (next, Some(trouble)));
    }

    /// Notes that a writer can acknowledge nothing from segment `fence` on, and that its rows before it are
    /// in the view. The next read of the catalog decides whether the fence is valid.
    pub(crate) fn note_fence(&self, writer: Id, fence: u64) {
        self.update(writer, |known| (known.fence, known.trouble, known.next) = (Some(fence), None, fence));
    }

    fn update(&self, writer: Id, change: impl FnOnce(&mut Known)) {
        let mut state = self.lock();
        let Some(known) = state.writers.get_mut(&writer) else { return };
        change(known);
        drop(state);
        self.changed();
    }

    /// The writers, and how to make the follower of each read now.
    pub(crate) fn writers(&self) -> Vec<(Id, Arc<Notify>)> {
        let state = self.lock();
        state.writers.iter().map(|(id, known)| (*id, Arc::clone(&known.read_now))).collect()
    }

    /// How many other writers there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().writers.len()
    }

    /// Notes that a query reads the view now. Returns whether it is the first one for some time.
    pub(crate) fn note_query(&self) -> bool {
        let now_ms = u64::try_from(self.env.monotonic().as_millis()).unwrap_or(u64::MAX);
        let before = self.asked_ms.swap(now_ms.saturating_add(1), Ordering::Relaxed);
        !self.is_recent(before)
    }

    /// Whether a query has read the view lately.
    pub(crate) fn is_queried(&self) -> bool {
        self.is_recent(self.asked_ms.load(Ordering::Relaxed))
    }

    fn is_recent(&self, asked_ms: u64) -> bool {
        let Some(asked_ms) = asked_ms.checked_sub(1) else { return false };
        self.env.monotonic().saturating_sub(Duration::from_millis(asked_ms)) < UNREAD_AFTER
    }

    /// Makes the followers read whose writers are not known as of `target`.
    pub(crate) fn read_before(&self, target: Duration) {
        let state = self.lock();
        state.writers.values().filter(|known| !known.is_read(target)).for_each(|known| {
            known.read_now.notify_one();
        });
    }

    /// Whether a read of a WAL is missing for the view to be complete as of `target`. Without `all`, writers
    /// do not count whose rows do not fit into memory or were waited for in vain.
    pub(crate) fn awaits_reads(&self, target: Duration, all: bool) -> bool {
        self.lock().writers.values().any(|known| known.counts(all) && !known.is_read(target))
    }

    /// Whether the view is complete as of `target`. Without `all`, what does not fit into memory or was
    /// waited for in vain does not count.
    pub(crate) fn is_complete(&self, target: Duration, all: bool) -> bool {
        let state = self.lock();
        let is_catalog_read = state.catalog_at >= Some(target) || (!all && state.is_catalog_given_up);
        is_catalog_read
            && state.writers.values().all(|known| !known.counts(all) || known.complete_at >= Some(target))
    }

    /// Notes that a query has waited in vain for the view to be complete as of `target`.
    pub(crate) fn give_up(&self, target: Duration) {
        let mut state = self.lock();
        state.is_catalog_given_up |= state.catalog_at < Some(target);
        for known in state.writers.values_mut().filter(|known| known.complete_at < Some(target)) {
            known.is_given_up = true;
        }
    }

    /// Whether rows are known to be missing, because there is no memory for them.
    pub(crate) fn lacks_memory(&self) -> bool {
        let lacks = |known: &Known| matches!(known.trouble, Some(Trouble::OutOfMemory(_)));
        self.lock().writers.values().any(lacks)
    }

    /// The writers whose rows may be missing and may be older than `bound`, and those whose rows are known
    /// to be missing.
    pub(crate) fn lags(&self, bound: Duration) -> Vec<WriterLag> {
        let (state, now) = (self.lock(), self.env.monotonic());
        let catalog_age = state.catalog_at.map_or(Duration::ZERO, |at| now.saturating_sub(at));
        let bound = match catalog_age > bound {
            true => catalog_age.saturating_add(BEYOND_CATALOG),
            false => bound,
        };
        let lag = |(writer, known): (&Id, &Known)| {
            let age = known.complete_at.map(|at| now.saturating_sub(at));
            let is_lagging = age.is_none_or(|age| age > bound) || known.lacks_memory();
            let reason = known.trouble.as_ref().map(|trouble| trouble.reason().to_owned());
            is_lagging.then(|| WriterLag { writer: *writer, age, reason: reason.unwrap_or_default() })
        };
        state.writers.iter().filter_map(lag).collect()
    }

    /// The age of the catalog and the writers that are not complete as of `target`.
    pub(crate) fn incomplete(&self, target: Duration) -> (Option<Duration>, Vec<WriterLag>) {
        let (state, now) = (self.lock(), self.env.monotonic());
        let late = state.writers.iter().filter(|(_, known)| known.complete_at < Some(target));
        let lag = |(writer, known): (&Id, &Known)| WriterLag {
            writer: *writer,
            age: known.complete_at.map(|at| now.saturating_sub(at)),
            reason: known.trouble.as_ref().map(|trouble| trouble.reason().to_owned()).unwrap_or_default(),
        };
        let catalog = state.catalog_at.filter(|at| *at < target).map(|at| now.saturating_sub(at));
        (catalog, late.map(lag).collect())
    }

    /// How far the rows of each writer are known.
    pub(crate) fn shown(&self) -> Vec<WriterShown> {
        let (state, now) = (self.lock(), self.env.monotonic());
        let show = |(writer, known): (&Id, &Known)| WriterShown {
            writer: *writer,
            next: known.next,
            age: known.complete_at.map(|at| now.saturating_sub(at)),
            reason: known.trouble.as_ref().map(|trouble| trouble.reason().to_owned()),
        };
        state.writers.iter().map(show).collect()
    }
}

impl Trouble {
    fn reason(&self) -> &str {
        match self {
            Self::Unread(reason) | Self::OutOfMemory(reason) => reason,
        }
    }
}

impl Known {
    fn since(complete_at: Option<Duration>) -> Self {
        Self {
            complete_at,
            unconfirmed: Vec::new(),
            next: 0,
            fence: None,
            trouble: None,
            told_at: None,
            is_given_up: false,
            read_now: Arc::default(),
        }
    }

    /// Applies the writer's floor in a read of the catalog that began at `at`.
    fn confirm(&mut self, at: Duration, floor: u64) {
        // A fence below the floor is void: the writer had moved its floor before.
        self.fence = self.fence.filter(|fence| floor <= *fence);
        let mut complete_at = self.fence.map(|_| at);
        let decided = self.unconfirmed.iter().filter(|end| end.ended <= at).count();
        for end in self.unconfirmed.drain(..decided) {
            match floor <= end.next {
                true => complete_at = complete_at.max(Some(end.began)),
                false => self.read_now.notify_one(),
            }
        }
        if complete_at.is_some() {
            self.complete_at = self.complete_at.max(complete_at);
            self.is_given_up = false;
        }
    }

    fn lacks_memory(&self) -> bool {
        matches!(self.trouble, Some(Trouble::OutOfMemory(_)))
    }

    fn counts(&self, all: bool) -> bool {
        all || !(self.is_given_up || self.lacks_memory())
    }

    /// Whether its WAL was read to the end by a read that began at `target` or later.
    fn is_read(&self, target: Duration) -> bool {
        let is_read = self.unconfirmed.iter().any(|end| end.began >= target);
        is_read || self.fence.is_some() || self.complete_at >= Some(target)
    }
}
