//! Members: which processes seem to be alive. Makes adoption fast; never decides anything about data.
//!
//! Every process rewrites `members/<incarnation>` with a growing counter. An observer records, by its own
//! monotonic clock, when a counter last grew; silence is the time from then to the observer's latest
//! successful read. Clocks of different machines are never compared, and a store that cannot be read or
//! written makes no member dead. An observer that was suspended reads again before it reports silence.
//!
//! A writer whose heartbeat has just grown is read again after a little more than an interval; beside many
//! writers after nearly two, so that reads stay few. A heartbeat that did not grow, and one that has not
//! grown since this process started, is read five times per interval, so that a death is noticed soon. Beside
//! many writers, one that answers calls of this process is read every twelve intervals, or more seldom beside
//! more than 72: it runs, and what is left to be noticed is that it cannot write to the store.
//!
//! A writer whose process gives no sign of life outside the bucket either ([`Hints`]) is read sooner, and
//! presumed dead after one and a half intervals without a heartbeat. Neither signal is enough by itself: a
//! process that others do not reach writes heartbeats, and one that does not write them may only be slow.
//!
//! A heartbeat also holds the position in the catalog's log that its author has read. If that position is
//! after the log's end, or in another log, the observers stop committing.
//!
//! In a local directory this process holds the lock, so every other writer that is not sealed is dead.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use sandur_base::Id;
use sandur_format::catalog_entry::Member;
use sandur_runtime::{Env, Task};
use sandur_store::{Intent, Store};

use crate::catalog::{Catalog, Registration};
use crate::error::Error;
use crate::hints::Hints;
use crate::names;
use crate::witness::Witness;

/// Intervals of heartbeats and of silence.
#[derive(Clone, Debug)]
pub struct MembersOptions {
    /// Time between two heartbeats, and between two reads of the others' heartbeats. Default: 10 s.
    pub beat: Duration,
    /// Silence after which a writer is presumed dead. Default: 30 s.
    pub silent_after: Duration,
    /// What other processes say outside the bucket. Default: nothing.
    pub hints: Option<Arc<dyn Hints>>,
}

impl Default for MembersOptions {
    fn default() -> Self {
        Self { beat: Duration::from_secs(10), silent_after: Duration::from_secs(30), hints: None }
    }
}

/// Reads without a change that must have happened, in addition to the time, before a writer is presumed
/// dead: a single read could be the first one after the observer was suspended.
const LOOKS_MIN: u32 = 3;
/// The same for a writer whose process is also gone outside the bucket.
const HINTED_LOOKS_MIN: u32 = 2;
/// How long a process must be gone outside the bucket for that to count.
const GONE_MIN: Duration = Duration::from_secs(10);
/// Between the address for peers and the address for hints in a heartbeat. Earlier versions only show the
/// text.
const HINTS_AT: &str = " gossip=";
/// A heartbeat that failed is repeated, and the heartbeat of a writer that is late is read again, after this
/// fraction (1/5) of the interval.
const REPEATED_AFTER_PART: u32 = 5;
/// Up to this number of other writers each is read in every interval.
const FEW: usize = 8;
/// Beside more, one that answers calls is read once in this number of intervals.
const HEARD_PAUSE_BEATS: u32 = 12;
/// The most that answer calls and are read in an interval, so that the cost does not grow with their number.
const HEARD_READS_PER_BEAT: u32 = 6;
/// A writer that has not answered for this long does not answer any more.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// How many reads per interval count that saw no growth.
const LOOKS_PER_BEAT: u32 = 2;

/// The own heartbeat, and the observed state of the others'. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Members(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    own: Registration,
    options: MembersOptions,
    counter: AtomicU64,
    /// Monotonic start of the first failed heartbeat since the last successful one.
    unwritten_since: Mutex<Option<Duration>>,
    /// Monotonic time of the last heartbeat that failed.
    failed_at: Mutex<Option<Duration>>,
    seen: Mutex<BTreeMap<Id, Seen>>,
    /// Where others get hints, by their heartbeats.
    hinted_at: Mutex<BTreeMap<Id, SocketAddr>>,
}

#[derive(Clone, Copy)]
struct Seen {
    /// The largest counter; `None` if there was no heartbeat yet.
    counter: Option<u64>,
    /// When this counter was first seen, or the writer was first read.
    since: Duration,
    /// The latest successful read.
    looked: Duration,
    /// Reads since then that saw no growth, at most two per interval of heartbeats.
    looks: u32,
    /// The latest read that was counted.
    counted: Duration,
    /// The number of the last catalog entry that the writer had read; 0 without a heartbeat.
    position: u64,
    /// Whether the counter has grown since the first read: the writer was alive while this process was.
    has_grown: bool,
    /// When the writer last answered a call.
    heard: Option<Duration>,
}

impl Seen {
    fn is_heard(&self, now: Duration) -> bool {
        self.heard.is_some_and(|at| now.saturating_sub(at) < HEARD_WITHIN)
    }
}

impl Members {
    /// Returns the members as seen by the process that registered as `own`. Writes nothing yet.
    pub fn new(catalog: Catalog, own: Registration, options: MembersOptions) -> Self {
        let (counter, unwritten_since, seen) = (AtomicU64::new(0), Mutex::default(), Mutex::default());
        let (hinted_at, failed_at) = (Mutex::default(), Mutex::default());
        let inner = Inner { catalog, own, options, counter, unwritten_since, failed_at, seen, hinted_at };
        Self(Arc::new(inner))
    }

    /// Writes and reads heartbeats until the task is dropped. Failures are logged and retried.
    pub fn start(&self) -> Task<()> {
        let members = self.clone();
        self.0.catalog.env().spawn("catalog-members", async move {
            let (mut writes, mut reads) = (FirstFailure::default(), FirstFailure::default());
            let (env, beat) = (members.0.catalog.env(), members.0.options.beat);
            loop {
                let written = writes.log("could not write the heartbeat", members.beat().await);
                let until = env.monotonic() + if written { beat } else { beat / REPEATED_AFTER_PART };
                loop {
                    reads.log("could not read the heartbeats of others", members.observe_due().await);
                    let rest = until.saturating_sub(env.monotonic());
                    env.sleep(rest.min(beat / REPEATED_AFTER_PART)).await;
                    if env.monotonic() >= until {
                        break;
                    }
                }
            }
        })
    }

    /// Writes the own heartbeat once.
    pub async fn beat(&self) -> Result<(), Error> {
        let began = self.0.catalog.env().monotonic();
        self.unwritten().get_or_insert(began);
        let written = self.write().await;
        match &written {
            Ok(()) => *self.unwritten() = None,
            Err(_) => *self.failed_at() = Some(self.0.catalog.env().monotonic()),
        }
        written
    }

    /// Whether our own heartbeats fail, or did a moment ago. If the store refuses writes, others are silent
    /// for the same reason, and they need a moment after us to write their next heartbeat.
    pub fn is_cut_off(&self) -> bool {
        let (now, beat) = (self.0.catalog.env().monotonic(), self.0.options.beat);
        let has_failed = self.failed_at().is_some_and(|at| now.saturating_sub(at) < beat);
        has_failed || self.unwritten().is_some_and(|since| now.saturating_sub(since) >= beat)
    }

    fn failed_at(&self) -> std::sync::MutexGuard<'_, Option<Duration>> {
        self.0.failed_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the monotonic time since which heartbeats have failed; `None` when the latest one was
    /// written. With this a process that pushes nothing notices that the store accepts no writes.
    pub fn unwritten_since(&self) -> Option<Duration> {
        *self.unwritten()
    }

    fn unwritten(&self) -> std::sync::MutexGuard<'_, Option<Duration>> {
        self.0.unwritten_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(&self) -> Result<(), Error> {
        let Registration { incarnation, address, host, .. } = self.0.own.clone();
        let counter = self.0.counter.fetch_add(1, Ordering::Relaxed) + 1;
        let seen = self.0.catalog.snapshot().position();
        let address = match self.0.options.hints.as_ref().and_then(|hints| hints.address()) {
            Some(hints) => format!("{address}{HINTS_AT}{hints}"),
            None => address,
        };
        let bytes = Bytes::from(Member { incarnation, counter, address, host, seen }.encode()?);
        let store = self.0.catalog.store();
        store.put(&names::member(incarnation), bytes, Intent::member()).await?;
        Ok(())
    }

    /// Reads the heartbeats of all other unsealed writers once.
    pub async fn observe(&self) -> Result<(), Error> {
        self.observe_those(|_, _| true).await
    }

    /// Reads the heartbeats of the other unsealed writers that may have grown, or have not grown lately.
    async fn observe_due(&self) -> Result<(), Error> {
        let (now, beat) = (self.0.catalog.env().monotonic(), self.0.options.beat);
        let others = self.lock().len();
        let many = u32::try_from(others).unwrap_or(u32::MAX) / HEARD_READS_PER_BEAT;
        let pause_of = |seen: &Seen| match others {
            0..=FEW => beat + beat / 10,
            _ if seen.is_heard(now) => beat.saturating_mul(many.max(HEARD_PAUSE_BEATS)),
            _ => 2 * beat - beat / 4,
        };
        let is_late = |seen: &Seen| !seen.has_grown || seen.looks > 0;
        let is_due = |seen: &Seen| is_late(seen) || now.saturating_sub(seen.since) >= pause_of(seen);
        self.observe_those(|id, seen| is_due(seen) || self.is_gone(id)).await
    }

    async fn observe_those(&self, is_due: impl Fn(Id, &Seen) -> bool) -> Result<(), Error> {
        let snapshot = self.0.catalog.snapshot();
        let others = snapshot.writers().values().filter(|w| !w.is_sealed());
        let others: Vec<Id> =
            others.map(|w| w.incarnation).filter(|id| *id != self.0.own.incarnation).collect();
        if self.0.catalog.is_local() {
            return Ok(());
        }
        let others: Vec<Id> = {
            let mut table = self.lock();
            table.retain(|id, _| others.contains(id));
            others.into_iter().filter(|id| table.get(id).is_none_or(|seen| is_due(*id, seen))).collect()
        };
        let looks = others.iter().map(|id| async move { (*id, self.look(*id).await) });
        let (mut failure, mut witnesses) = (None, Vec::new());
        for (id, result) in join_all(looks).await {
            match result {
                Ok(member) => {
                    self.note(id, member.as_ref());
                    self.note_address(id, member.as_ref());
                    let object = names::member(id);
                    witnesses.extend(member.map(|member| Witness { object, seen: member.seen }));
                }
                Err(error) => failure = Some(error),
            }
        }
        self.pass_addresses_on();
        self.0.catalog.check_witnesses(&witnesses).await?;
        failure.map_or(Ok(()), Err)
    }

    /// Notes that a writer has just answered a call.
    pub fn note_heard(&self, incarnation: Id) {
        let now = self.0.catalog.env().monotonic();
        if let Some(seen) = self.lock().get_mut(&incarnation) {
            seen.heard = Some(now);
        }
    }

    /// Reads a writer's heartbeat; `None` when there is none or it is damaged.
    async fn look(&self, incarnation: Id) -> Result<Option<Member>, Error> {
        let found = self.0.catalog.store().find(&names::member(incarnation), Intent::member()).await?;
        Ok(found.and_then(|bytes| Member::decode(&bytes).ok()))
    }

    fn note(&self, incarnation: Id, member: Option<&Member>) {
        let (counter, position) = (member.map(|m| m.counter), member.map_or(0, |m| m.seen.number));
        let now = self.0.catalog.env().monotonic();
        let mut table = self.lock();
        let first = Seen {
            counter,
            since: now,
            looked: now,
            looks: 0,
            counted: now,
            position,
            has_grown: false,
            heard: None,
        };
        let seen = table.entry(incarnation).or_insert(first);
        if counter > seen.counter {
            *seen = Seen { has_grown: true, heard: seen.heard, ..first };
            return;
        }
        seen.looked = now;
        if now.saturating_sub(seen.counted) >= self.0.options.beat / LOOKS_PER_BEAT {
            (seen.looks, seen.counted) = (seen.looks.saturating_add(1), now);
        }
    }

    fn note_address(&self, incarnation: Id, member: Option<&Member>) {
        let text = member.and_then(|member| Some(member.address.split_once(HINTS_AT)?.1));
        let mut addresses = self.0.hinted_at.lock().unwrap_or_else(PoisonError::into_inner);
        match text.and_then(|text| text.parse().ok()) {
            Some(address) => drop(addresses.insert(incarnation, address)),
            None => drop(addresses.remove(&incarnation)),
        }
    }

    /// Passes on where other processes get hints: those whose writers are registered and not sealed.
    fn pass_addresses_on(&self) {
        let Some(hints) = &self.0.options.hints else { return };
        let mut addresses = self.0.hinted_at.lock().unwrap_or_else(PoisonError::into_inner);
        let table = self.lock();
        addresses.retain(|id, _| table.contains_key(id));
        hints.note_addresses(addresses.values().copied().collect());
    }

    /// Whether the process of a writer is gone outside the bucket.
    fn is_gone(&self, incarnation: Id) -> bool {
        let gone = self.0.options.hints.as_ref().and_then(|hints| hints.gone_for(incarnation));
        gone.is_some_and(|gone| gone >= GONE_MIN)
    }

    /// The silence after which a writer is presumed dead, and the reads without a change that it takes.
    fn patience(&self, incarnation: Id) -> (Duration, u32) {
        let MembersOptions { beat, silent_after, .. } = self.0.options;
        match self.is_gone(incarnation) {
            true => ((beat + beat / 2).min(silent_after), HINTED_LOOKS_MIN),
            false => (silent_after, LOOKS_MIN),
        }
    }

    /// The silence after which a writer is presumed dead.
    pub fn silent_after(&self, incarnation: Id) -> Duration {
        self.patience(incarnation).0
    }

    /// Returns for how long a writer has certainly not written a heartbeat; `None` for one that was not
    /// read yet, is sealed, or is this process.
    pub fn silent_for(&self, incarnation: Id) -> Option<Duration> {
        let table = self.lock();
        let seen = table.get(&incarnation)?;
        Some(seen.looked.saturating_sub(seen.since))
    }

    /// Whether a writer has certainly been alive since this process reads its heartbeats.
    pub fn has_grown(&self, incarnation: Id) -> bool {
        self.lock().get(&incarnation).is_some_and(|seen| seen.has_grown)
    }

    /// Returns the number of the last catalog entry that a writer had read at its last heartbeat; `None` if
    /// that is not known.
    pub fn seen_by(&self, incarnation: Id) -> Option<u64> {
        self.lock().get(&incarnation).map(|seen| seen.position).filter(|number| *number > 0)
    }

    /// Whether to adopt a writer: it was silent for long enough, or it cannot be alive. A wrong answer
    /// costs the writer a restart, never a row: adoption fences first.
    pub fn is_presumed_dead(&self, incarnation: Id) -> bool {
        if incarnation == self.0.own.incarnation {
            return false;
        }
        let sealed = self.0.catalog.snapshot().writer(incarnation).is_none_or(|w| w.is_sealed());
        if sealed || self.0.catalog.is_local() {
            return true;
        }
        if self.is_cut_off() {
            return false;
        }
        let (silent_after, looks_min) = self.patience(incarnation);
        let table = self.lock();
        let silent = |seen: &Seen| seen.looked.saturating_sub(seen.since) >= silent_after;
        table.get(&incarnation).is_some_and(|seen| seen.looks >= looks_min && silent(seen))
    }

    /// Deletes the own heartbeat at a clean stop.
    pub async fn leave(&self) -> Result<(), Error> {
        self.0.catalog.write_witness().await;
        let path = names::member(self.0.own.incarnation);
        self.0.catalog.store().delete(&path, Intent::member()).await?;
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Id, Seen>> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs only the first of consecutive failures: an attempt every few seconds would fill the log during an
/// outage.
#[derive(Default)]
struct FirstFailure {
    is_logged: bool,
}

impl FirstFailure {
    /// Logs a failure if the call before succeeded. Returns whether this call succeeded.
    fn log(&mut self, what: &str, outcome: Result<(), Error>) -> bool {
        match &outcome {
            Err(error) if !self.is_logged => tracing::warn!(%error, "{what}; it is tried again and again"),
            Err(error) => tracing::debug!(%error, "{what}"),
            Ok(()) => {}
        }
        self.is_logged = outcome.is_err();
        outcome.is_ok()
    }
}

/// Returns the heartbeats that grow within `watch`: those of running processes.
pub async fn growing_members(store: &Store, env: &Env, watch: Duration) -> Result<Vec<String>, Error> {
    let before = counters(store).await?;
    env.sleep(watch).await;
    let after = counters(store).await?;
    let grows = |(path, counter): &(&String, &u64)| before.get(*path).is_none_or(|before| before != *counter);
    Ok(after.iter().filter(grows).map(|(path, _)| path.clone()).collect())
}

async fn counters(store: &Store) -> Result<BTreeMap<String, u64>, Error> {
    let mut counters = BTreeMap::new();
    for object in store.list(names::MEMBERS, Intent::member()).await? {
        match store.get(&object.path, Intent::member()).await {
            Ok(bytes) => counters.extend(Member::decode(&bytes).ok().map(|m| (object.path, m.counter))),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(counters)
}
