//! What queries see: a catalog snapshot and the heads that belong to it, replaced as one.
//!
//! **Invariant.** In every [`View`] a row with WAL sequence number `n` is in a block if `n` is below its
//! writer's floor in the snapshot. Otherwise it is in a head, unless a flush has put it into a block
//! before the floor moves ([`Views::retire`]). It is never in neither. A row may be in both only while a
//! flush in several commits is under way, or was when its process died; then it is equal in both. New
//! snapshots come through [`Views::publish`], in any order, rows through [`Views::insert`]. All of these
//! functions hold one lock for a short time, under which heads are cut at the floors.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use sandur_base::Id;
use sandur_catalog::Snapshot;
use sandur_format::catalog_entry::WalKind;
use sandur_memory::Reservation;
use sandur_model::{Batch, Dataset, SampleBatch};
use sandur_runtime::Env;

use crate::head::{Head, Inserted};
use crate::head_totals::HeadTotals;
use crate::same_rows::SameRows;
use crate::stamp_clock::StampClock;

/// A consistent state of everything that can be queried. The last head of a live writer grows while the
/// view is in use.
pub struct View {
    /// The blocks.
    pub snapshot: Arc<Snapshot>,
    /// The rows that are not in blocks yet.
    pub heads: Vec<Arc<Head>>,
}

impl View {
    /// Sums over all heads.
    pub fn head_totals(&self) -> HeadTotals {
        let mut sum = HeadTotals::default();
        for totals in self.heads.iter().map(|head| head.totals()) {
            sum.add(totals);
        }
        sum
    }

    /// Positions of the new series of a batch beyond the first ones that keep the tenant within `most`
    /// series in heads. Of the heads of one writer only the one with the most series counts, because
    /// most series are in all of them.
    pub fn series_beyond(&self, batch: &SampleBatch, most: u64) -> Vec<u32> {
        let mut of_writers: BTreeMap<Id, u64> = BTreeMap::new();
        for head in &self.heads {
            let largest = of_writers.entry(head.incarnation()).or_default();
            *largest = (*largest).max(head.samples().series(&batch.tenant) as u64);
        }
        let there: u64 = of_writers.values().sum();
        if there.saturating_add(batch.series.len() as u64) <= most {
            return Vec::new();
        }
        let mut known = vec![false; batch.series.len()];
        self.heads.iter().for_each(|head| head.samples().mark_known(batch, &mut known));
        let (mut left, mut taken, mut beyond) = (most.saturating_sub(there), HashSet::new(), Vec::new());
        for (at, series) in (0u32..).zip(&batch.series).filter(|(at, _)| !known[*at as usize]) {
            if taken.contains(&series.id) {
                continue;
            }
            if left == 0 {
                beyond.push(at);
                continue;
            }
            left -= 1;
            taken.insert(series.id);
        }
        beyond
    }
}

/// Batches, each with the reservation of its memory.
type Batches = Vec<(Batch, Reservation)>;

/// A frame of a WAL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameAt {
    /// The writer.
    pub(crate) incarnation: Id,
    /// Its number.
    pub(crate) sequence: u64,
    /// The time of its stamp; 0 if it has none.
    pub(crate) stamp: u64,
}

/// Holds the current view.
pub(crate) struct Views {
    env: Env,
    inserters: Mutex<BTreeMap<Id, Inserter>>,
    current: RwLock<Arc<View>>,
    same_rows: SameRows,
    stamps: StampClock,
}

/// The state of inserting the rows of one incarnation.
#[derive(Default)]
struct Inserter {
    /// The head that accepts rows; the last one of the incarnation in the view.
    open: Option<Arc<Head>>,
    /// The sequence number that the next head starts with: where the previous one ended, so that the
    /// floor moves from head to head without a gap.
    start: u64,
    /// Sequence numbers below this one bring no more rows.
    void_below: u64,
}

impl Views {
    pub(crate) fn new(env: Env, snapshot: Arc<Snapshot>) -> Self {
        let stamps = StampClock::new(env.clone());
        stamps.observe(snapshot.stamps_before());
        let view = View { snapshot, heads: Vec::new() };
        let (inserters, current) = (Mutex::default(), RwLock::new(Arc::new(view)));
        Self { env, inserters, current, same_rows: SameRows::default(), stamps }
    }

    /// What holdings had the rows of blocks before.
    pub(crate) fn same_rows(&self) -> &SameRows {
        &self.same_rows
    }

    /// The clock of stamps.
    pub(crate) fn stamps(&self) -> &StampClock {
        &self.stamps
    }

    /// Returns the current view.
    pub(crate) fn current(&self) -> Arc<View> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, Inserter>> {
        self.inserters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn swap(&self, view: View) -> Arc<View> {
        self.stamps.observe(view.snapshot.stamps_before());
        let view = Arc::new(view);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&view);
        view
    }

    /// Makes the batches of a frame visible to queries. Frames of an incarnation must come in the order of
    /// their numbers. Rows that are in blocks already are dropped.
    pub(crate) fn insert(&self, frame: FrameAt, batches: Batches) -> Vec<Inserted> {
        self.insert_frame(frame, batches, false)
    }

    /// Does the same for pushes. Their senders learn which samples were not stored, so samples are
    /// compared with those of earlier heads, too.
    pub(crate) fn insert_pushed(&self, frame: FrameAt, batches: Batches) -> Vec<Inserted> {
        self.insert_frame(frame, batches, true)
    }

    fn insert_frame(&self, frame: FrameAt, batches: Batches, is_pushed: bool) -> Vec<Inserted> {
        let FrameAt { incarnation, sequence, stamp } = frame;
        self.stamps.observe(stamp);
        let mut inserters = self.lock();
        let current = self.current();
        if sequence < floor_of(&current.snapshot, incarnation) {
            self.stamps.settled(stamp);
            return Vec::new();
        }
        let inserter = inserters.entry(incarnation).or_default();
        let head = self.open_head(inserter, incarnation, &current);
        let earlier = if is_pushed { earlier_heads(&current, &head, stamp) } else { Vec::new() };
        if batches.iter().any(|(batch, _)| matches!(batch, Batch::Metrics(_))) {
            head.samples().note_stamp(sequence, stamp);
        }
        let insert = |(batch, memory)| head.insert_after(sequence, batch, memory, &earlier);
        let inserted = batches.into_iter().map(insert).collect();
        head.advance(sequence + 1);
        self.stamps.settled(stamp);
        inserted
    }

    fn open_head(&self, inserter: &mut Inserter, incarnation: Id, current: &View) -> Arc<Head> {
        if let Some(open) = &inserter.open {
            return Arc::clone(open);
        }
        let start = inserter.start.max(floor_of(&current.snapshot, incarnation));
        let head = Arc::new(Head::new(incarnation, start, self.env.monotonic()));
        inserter.open = Some(Arc::clone(&head));
        let mut heads = current.heads.clone();
        heads.push(Arc::clone(&head));
        self.swap(View { snapshot: Arc::clone(&current.snapshot), heads });
        head
    }

    /// Notes that frames below `end` bring no more rows, because their sequence numbers became void.
    pub(crate) fn advance(&self, incarnation: Id, end: u64) {
        let mut inserters = self.lock();
        let inserter = inserters.entry(incarnation).or_default();
        match &inserter.open {
            Some(open) => open.advance(end),
            None => inserter.void_below = inserter.void_below.max(end),
        }
    }

    /// The first sequence number of an incarnation whose rows are neither in a head nor in a block.
    pub(crate) fn next_of(&self, incarnation: Id) -> u64 {
        let inserters = self.lock();
        let floor = floor_of(&self.current().snapshot, incarnation);
        let Some(inserter) = inserters.get(&incarnation) else { return floor };
        let end = inserter.open.as_ref().map_or(inserter.start, |open| open.end());
        end.max(inserter.void_below).max(floor)
    }

    /// The head of an incarnation that accepts rows now.
    pub(crate) fn open(&self, incarnation: Id) -> Option<Arc<Head>> {
        self.lock().get(&incarnation)?.open.clone()
    }

    /// Seals the head that accepts rows now: it stays visible, but later rows go to a new one.
    pub(crate) fn seal(&self, incarnation: Id) -> Option<Arc<Head>> {
        let mut inserters = self.lock();
        let inserter = inserters.get_mut(&incarnation)?;
        let head = inserter.open.take()?;
        inserter.start = head.end();
        Some(head)
    }

    /// The heads of an incarnation in the order of their sequence numbers, sealed or not.
    pub(crate) fn heads_of(&self, incarnation: Id) -> Vec<Arc<Head>> {
        let current = self.current();
        current.heads.iter().filter(|head| head.incarnation() == incarnation).cloned().collect()
    }

    /// The incarnations that have heads, up to this one and with it, in order.
    pub(crate) fn incarnations_until(&self, last: Id) -> Vec<Id> {
        let mut found: BTreeSet<Id> = self.current().heads.iter().map(|head| head.incarnation()).collect();
        found.insert(last);
        found.into_iter().take_while(|incarnation| *incarnation <= last).collect()
    }

    /// Publishes a snapshot whose blocks hold the rows of some datasets of a sealed head, and removes
    /// these rows from the head in the same step. Returns the rest of the head.
    pub(crate) fn retire(
        &self,
        head: &Arc<Head>,
        datasets: &BTreeSet<Dataset>,
        snapshot: Arc<Snapshot>,
    ) -> Arc<Head> {
        let mut inserters = self.lock();
        let current = self.current();
        let rest = Arc::new(head.without(datasets));
        let mut heads: Vec<Arc<Head>> = Vec::with_capacity(current.heads.len());
        for one in &current.heads {
            let is_it = Arc::ptr_eq(one, head);
            let before = heads.iter().rev().find(|before| before.incarnation() == rest.incarnation());
            match before.filter(|before| is_it && rest.datasets().is_empty() && before.end() == rest.start())
            {
                // The floor will pass both heads at once. Until then, empty heads must not accumulate.
                Some(before) => before.advance(rest.end()),
                None => heads.push(Arc::clone(if is_it { &rest } else { one })),
            }
        }
        let newest =
            if snapshot.number() > current.snapshot.number() { &snapshot } else { &current.snapshot };
        let view = View { snapshot: Arc::clone(newest), heads };
        self.swap(self.at_floors(&mut inserters, view));
        rest
    }

    /// Makes a snapshot visible together with the heads that belong to it. A snapshot that is not newer
    /// than the current one changes nothing.
    pub(crate) fn publish(&self, snapshot: Arc<Snapshot>) -> Arc<View> {
        let mut inserters = self.lock();
        let current = self.current();
        if snapshot.number() <= current.snapshot.number() {
            return current;
        }
        let heads = current.heads.clone();
        let view = self.at_floors(&mut inserters, View { snapshot, heads });
        self.swap(view)
    }

    /// Cuts the heads of a view at the floors of its snapshot.
    fn at_floors(&self, inserters: &mut BTreeMap<Id, Inserter>, view: View) -> View {
        let View { snapshot, heads: before } = view;
        let mut heads = Vec::with_capacity(before.len());
        for head in &before {
            let floor = floor_of(&snapshot, head.incarnation());
            if floor <= head.start() {
                heads.push(Arc::clone(head));
                continue;
            }
            let rest = (floor < head.end()).then(|| Arc::new(head.since_floor(floor)));
            if let Some(inserter) = inserters.get_mut(&head.incarnation())
                && inserter.open.as_ref().is_some_and(|open| Arc::ptr_eq(open, head))
            {
                inserter.start = inserter.start.max(head.end());
                inserter.open = rest.clone();
            }
            heads.extend(rest);
        }
        inserters.retain(|incarnation, _| floor_of(&snapshot, *incarnation) < u64::MAX);
        View { snapshot, heads }
    }
}

/// The heads whose samples win over samples of the same instants in the open head of a writer: its own
/// earlier heads, and those of earlier writers that have ended, if all of their stamps precede that of the
/// frame.
pub(crate) fn earlier_heads<'v>(view: &'v View, open: &Head, stamp: u64) -> Vec<&'v Head> {
    let has_ended = |incarnation| {
        let writer = view.snapshot.writer(incarnation);
        writer.is_none_or(|writer| writer.is_sealed() || writer.wal == WalKind::Local)
    };
    let is_earlier = |head: &&Head| match head.incarnation() == open.incarnation() {
        true => head.start() < open.start(),
        false => {
            let precedes = head.samples().stamps().is_none_or(|(_, last)| last < stamp);
            head.incarnation() < open.incarnation() && precedes && has_ended(head.incarnation())
        }
    };
    view.heads.iter().map(|head| &**head).filter(is_earlier).collect()
}

/// The first sequence number of an incarnation whose rows are not in blocks. `u64::MAX` when the
/// incarnation is sealed and drained, or is not in the catalog any more.
pub(crate) fn floor_of(snapshot: &Snapshot, incarnation: Id) -> u64 {
    match snapshot.writer(incarnation) {
        Some(writer) if writer.fence.is_none_or(|fence| writer.floor < fence) => writer.floor,
        _ => u64::MAX,
    }
}
