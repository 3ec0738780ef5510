//! Walks over the series of all holders in the order of blocks.
//!
//! Of the series of a block that were not reached yet, a set of ordinals and the labels of one page of
//! series are in memory. Series that were found refer to the page of their labels until they are used.
//! **Invariant.** The series of a scan refer to few pages, each small compared to the query's memory
//! ([`HeldPages`]); other series have a copy of their labels. If blocks have the same series, numbers
//! are compared instead of texts ([`Alike`]).

use std::cmp::Ordering;
use std::iter::Peekable;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::future::join_all;
use roaring::RoaringBitmap;
use sandur_format::block::compare_series;
use sandur_format::sample_block::index::{Alike, SeriesPage};
use sandur_memory::{Reservation, job};
use sandur_model::Labels;
use sandur_query::{Error, QueryContext, TEXT_BYTES};

use super::holder::{Holder, SERIES_BYTES};
use crate::samples::SAMPLE_BYTES;
use crate::samples::head::SelectedSeries;
use crate::samples::index::{HeldPage, IndexError, IndexReader, WantedLabels, or_warn};

/// Bytes of a label in addition to its texts: as ids and texts of the batch.
const LABEL_BYTES: u64 = 2 * TEXT_BYTES + 8;
/// Decoded pages of series are cached if at most this many pages of a block are needed.
const KEPT_PAGES: usize = 8;

/// The most pages of other holders whose common texts with a page are known, and the most for all
/// holders together. With many holders it is one page each.
const ALIKE_MAX: usize = 4;
const ALIKE_OF_ALL: usize = 32;

/// The most pages to which series of a scan refer.
const HELD_PAGES: usize = 8;
/// Up to this number of series, times the number of holders, a walk runs inline: 0.3 ms.
const LITTLE_PLACES: usize = 2_048;
/// Units of work for comparing the next series of a holder.
const PLACE_UNITS: usize = 128;

/// Optional memory of a walk is at most this fraction of the budget.
const SMALL_ONE_IN: u64 = 64;

/// The series of a batch.
pub(super) type FoundBatch = Arc<Vec<Found>>;

/// A series with its positions in the holders.
pub(super) struct Found {
    /// The holders in the order in which they received their rows, each with the position of the series:
    /// its ordinal in a block, or its position in a head's selection.
    pub(super) members: Members,
    /// Its labels, if the first holder is a block.
    labels: Option<FoundLabels>,
    /// Bytes of its labels in a batch.
    label_bytes: u64,
    rows: u64,
    /// The rows that are in heads.
    head_rows: u64,
}

/// The holders of a series, with its position in each. Most series have one holder, which needs no heap
/// memory.
pub(super) enum Members {
    One([(usize, u32); 1]),
    Several(Vec<(usize, u32)>),
}

impl Members {
    /// Adds a holder; there may be `most` in all.
    fn push(&mut self, member: (usize, u32), most: usize) {
        match self {
            Self::One([first]) => {
                let mut all = Vec::with_capacity(most);
                all.extend([*first, member]);
                *self = Self::Several(all);
            }
            Self::Several(all) => all.push(member),
        }
    }
}

impl std::ops::Deref for Members {
    type Target = [(usize, u32)];

    fn deref(&self) -> &[(usize, u32)] {
        match self {
            Self::One(one) => one,
            Self::Several(all) => all,
        }
    }
}

/// The labels of a series of a block.
enum FoundLabels {
    /// In a page that is in memory as long as one of its series is.
    Held(Arc<HeldPage>, u32),
    /// A copy, because the page is large and is freed.
    Own(OwnLabels),
}

/// Labels of one series: names and values one after the other.
struct OwnLabels {
    text: String,
    ends: Vec<u32>,
}

impl OwnLabels {
    fn of<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for part in pairs.flat_map(|(name, value)| [name, value]) {
            text.push_str(part);
            ends.push(text.len() as u32);
        }
        Self { text, ends }
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        self.ends.chunks_exact(2).map(move |ends| {
            let (name, value) = (ends[0] as usize, ends[1] as usize);
            let pair = (&self.text[start..name], &self.text[name..value]);
            start = value;
            pair
        })
    }
}

impl Found {
    /// Its position in a holder.
    pub(super) fn ordinal_in(&self, holder: usize) -> Option<u32> {
        self.members.iter().find(|(number, _)| *number == holder).map(|(_, ordinal)| *ordinal)
    }

    /// Bytes that it takes until it is decoded.
    pub(super) fn bytes(&self) -> u64 {
        self.label_bytes() + self.members.len() as u64 * 16
    }

    /// Bytes of its labels in a batch.
    pub(super) fn label_bytes(&self) -> u64 {
        self.label_bytes + SERIES_BYTES
    }

    /// Bytes of its labels and of its samples from heads while it is decoded.
    pub(super) fn decoded_bytes(&self) -> u64 {
        self.label_bytes() + self.head_rows * 2 * SAMPLE_BYTES
    }

    /// The number of its samples in all holders.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Calls `each` with its labels.
    pub(super) fn each_label<'a>(&'a self, holders: &'a [Holder], mut each: impl FnMut(&'a str, &'a str)) {
        let Some((number, place)) = self.members.first() else { return };
        match (&holders[*number], &self.labels) {
            (Holder::Head { series }, _) => series.pairs(*place as usize).for_each(|(n, v)| each(n, v)),
            (Holder::Block { .. }, Some(FoundLabels::Held(held, place))) => {
                held.page.pairs(*place).for_each(|(n, v)| each(n, v));
            }
            (Holder::Block { .. }, Some(FoundLabels::Own(labels))) => {
                labels.pairs().for_each(|(n, v)| each(n, v));
            }
            (Holder::Block { .. }, None) => {}
        }
    }

    /// Its label set.
    pub(super) fn labels(&self, holders: &[Holder]) -> Labels {
        let mut pairs = Vec::new();
        self.each_label(holders, |name, value| pairs.push((name, value)));
        Labels::from_pairs(pairs)
    }
}

/// The position of a scan in one holder.
enum Cursor {
    Block {
        reader: Box<IndexReader>,
        series: Box<Peekable<roaring::bitmap::IntoIter>>,
        /// The page with the labels of the next series, once it is read.
        page: Option<Arc<HeldPage>>,
        /// Common texts with pages of earlier holders, the most recently compared page first.
        alike: Vec<KnownAlike>,
        /// Whether decoded pages are cached.
        keep: bool,
        /// Pays for the set of series.
        _memory: Reservation,
    },
    Head {
        series: Arc<SelectedSeries>,
        next: usize,
    },
}

impl Cursor {
    /// The position of the next series in its holder.
    fn next(&mut self) -> Option<u32> {
        match self {
            Self::Block { series, .. } => series.peek().copied(),
            Self::Head { series, next } => (*next < series.len()).then_some(*next as u32),
        }
    }

    /// The number of remaining series.
    fn left(&self) -> usize {
        match self {
            Self::Block { series, .. } => series.size_hint().0,
            Self::Head { series, next } => series.len().saturating_sub(*next),
        }
    }

    fn pass(&mut self) {
        match self {
            Self::Block { series, .. } => drop(series.next()),
            Self::Head { next, .. } => *next += 1,
        }
    }

    fn rows(&self, place: u32) -> u64 {
        match self {
            Self::Block { page, .. } => page.as_ref().map_or(0, |held| held.page.span(place).rows),
            Self::Head { series, .. } => series.rows(place as usize) as u64,
        }
    }

    fn compare(&self, place: u32, other: &Self, other_place: u32) -> Ordering {
        match (self, other) {
            (Self::Block { page: Some(a), .. }, Self::Block { page: Some(b), .. }) => {
                compare_series(a.page.pairs(place), b.page.pairs(other_place))
            }
            (Self::Block { page: Some(a), .. }, Self::Head { series: b, .. }) => {
                compare_series(a.page.pairs(place), b.pairs(other_place as usize))
            }
            (Self::Head { series: a, .. }, Self::Block { page: Some(b), .. }) => {
                compare_series(a.pairs(place as usize), b.page.pairs(other_place))
            }
            (Self::Head { series: a, .. }, Self::Head { series: b, .. }) => {
                compare_series(a.pairs(place as usize), b.pairs(other_place as usize))
            }
            // The page of the next series is read before the series is compared.
            (a, b) => a.has_page().cmp(&b.has_page()),
        }
    }

    fn has_page(&self) -> bool {
        !matches!(self, Self::Block { page: None, .. })
    }

    fn drop_page(&mut self) {
        if let Self::Block { page, alike, .. } = self {
            *page = None;
            alike.clear();
        }
    }

    /// The page of the next series, if it is read.
    fn page(&self) -> Option<&Arc<SeriesPage>> {
        match self {
            Self::Block { page: Some(held), .. } => Some(&held.page),
            _ => None,
        }
    }

    /// Reads a page of series. Returns `None` for a head.
    async fn read(&self, number: u32, wanted: &WantedLabels) -> Result<Option<HeldPage>, IndexError> {
        match self {
            Self::Block { reader, keep, .. } => reader.page(number, wanted, *keep).await.map(Some),
            Self::Head { .. } => Ok(None),
        }
    }

    /// The number of the page that must be read before the next series is known.
    fn page_due(&mut self) -> Option<u32> {
        let next = self.next()?;
        match self {
            Self::Block { page, .. } => {
                let holds = page.as_ref().is_some_and(|held| held.page.holds(next));
                (!holds).then_some(next / sandur_format::sample_block::index::PAGE_SERIES)
            }
            Self::Head { .. } => None,
        }
    }
}

/// Whether a page that stays in memory until its last series is used is small compared to the query's
/// memory.
fn is_small_for(held: &HeldPage, context: &QueryContext) -> bool {
    held.page.memory_bytes().saturating_mul(SMALL_ONE_IN) <= context.budget().capacity()
}

/// The pages to which found series refer. They are few, whatever series are selected.
#[derive(Default)]
struct HeldPages(Vec<Weak<HeldPage>>);

impl HeldPages {
    /// Whether series may refer to a page instead of having a copy of their labels.
    fn may_hold(&mut self, page: &Arc<HeldPage>, context: &QueryContext) -> bool {
        if self.0.iter().any(|held| std::ptr::eq(held.as_ptr(), Arc::as_ptr(page))) {
            return true;
        }
        self.0.retain(|held| held.strong_count() > 0);
        let may = self.0.len() < HELD_PAGES && is_small_for(page, context);
        if may {
            self.0.push(Arc::downgrade(page));
        }
        may
    }
}

/// The common texts of a holder's page with the page of an earlier holder.
struct KnownAlike {
    /// Identifies the page by its address, and keeps only that address allocated.
    first: Weak<SeriesPage>,
    alike: Alike,
    _memory: Reservation,
}

impl KnownAlike {
    /// Compares two pages, if there is memory for it.
    fn of(context: &QueryContext, first: &Arc<SeriesPage>, second: &SeriesPage) -> Option<Self> {
        let (bytes, budget) = (Alike::bytes_of(first), context.budget());
        if bytes.saturating_mul(SMALL_ONE_IN) > budget.capacity() {
            return None;
        }
        let memory = budget.reserve(bytes).ok()?;
        Some(Self { first: Arc::downgrade(first), alike: Alike::of(first, second), _memory: memory })
    }

    /// Moves what is known of two pages to the front of `known`, which has at most `most` pages; `None`
    /// if there is no memory for it.
    fn among<'a>(
        known: &'a mut Vec<Self>,
        most: usize,
        context: &QueryContext,
        first: &Arc<SeriesPage>,
        second: &SeriesPage,
    ) -> Option<&'a mut Alike> {
        let is_of = |one: &Self| std::ptr::eq(one.first.as_ptr(), Arc::as_ptr(first));
        match known.iter().position(is_of) {
            Some(at) => known[..=at].rotate_right(1),
            None => {
                known.truncate(most - 1);
                known.insert(0, Self::of(context, first, second)?);
            }
        }
        known.first_mut().map(|known| &mut known.alike)
    }
}

/// A walk that was moved to the CPU pool. It is returned when the work on it ends, also if that is
/// stopped for lack of memory.
struct Lent {
    walk: Walk,
    home: Arc<Mutex<Option<Walk>>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let nothing = Walk::new(&self.walk.context);
        let walk = std::mem::replace(&mut self.walk, nothing);
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = Some(walk);
    }
}

/// The positions of a scan in all of its holders.
pub(super) struct Walk {
    context: QueryContext,
    cursors: Vec<Cursor>,
    /// The labels that the query reads. Several holders are ordered by all labels.
    wanted: WantedLabels,
    /// The labels that batches contain.
    shown: WantedLabels,
    /// Series that were found for the next batch.
    found: Vec<Found>,
    held: HeldPages,
    rows: u64,
    /// Whether this is a placeholder for a walk that is on the CPU pool. Using it fails.
    is_away: bool,
}

impl Walk {
    pub(super) fn new(context: &QueryContext) -> Self {
        let (wanted, shown) = (WantedLabels::All, WantedLabels::All);
        let (context, held) = (context.clone(), HeldPages::default());
        let (cursors, found) = (Vec::new(), Vec::new());
        Self { context, cursors, wanted, shown, found, held, rows: 0, is_away: false }
    }

    /// Restricts batches to these labels. Call it after all holders were added. If there is only one
    /// holder, whose order is known, no other labels are read.
    pub(super) fn narrow(&mut self, labels: Option<&[String]>) {
        let Some(labels) = labels else { return };
        if !self.context.part().is_whole() {
            return; // the part is known from all labels
        }
        self.shown = WantedLabels::Some(labels.into());
        if let [_] = &self.cursors[..] {
            self.wanted = self.shown.clone();
        }
    }

    /// Adds these series of a block, which becomes the next holder.
    pub(super) fn add_block(&mut self, reader: IndexReader, series: RoaringBitmap) -> Result<(), Error> {
        // The iterator over the set copies it one container at a time.
        let memory = self.context.budget().reserve(series.serialized_size() as u64 + 512)?;
        let keep = reader.pages_of(&series).len() <= KEPT_PAGES;
        let series = Box::new(series.into_iter().peekable());
        let (reader, page, alike) = (Box::new(reader), None, Vec::new());
        self.cursors.push(Cursor::Block { reader, series, page, alike, keep, _memory: memory });
        Ok(())
    }

    /// Adds series of a head, which becomes the next holder.
    pub(super) fn add_head(&mut self, series: Arc<SelectedSeries>) {
        self.cursors.push(Cursor::Head { series, next: 0 });
    }

    /// Bytes of the current pages of all holders.
    pub(super) fn page_bytes(&self) -> u64 {
        self.cursors.iter().filter_map(Cursor::page).map(|page| page.memory_bytes()).sum()
    }

    /// Whether no series is left.
    pub(super) fn is_over(&mut self) -> bool {
        !self.is_away
            && self.found.is_empty()
            && self.cursors.iter_mut().all(|cursor| cursor.next().is_none())
    }

    /// Returns the next series: at most `series_max`, and none after those with `rows_max` samples. If
    /// memory is refused, the call can be repeated. A long walk runs on the CPU pool.
    pub(super) async fn take(&mut self, series_max: usize, rows_max: u64) -> Result<Vec<Found>, Error> {
        let left = self.cursors.iter().map(Cursor::left).fold(0, usize::saturating_add);
        if series_max.saturating_mul(self.cursors.len()).min(left) <= LITTLE_PLACES {
            return self.take_here(series_max, rows_max).await;
        }
        let away = Self { is_away: true, ..Self::new(&self.context) };
        let home = Arc::new(Mutex::new(None));
        let mut lent = Lent { walk: std::mem::replace(self, away), home: Arc::clone(&home) };
        let context = lent.walk.context.clone();
        let found = context.work(async move { lent.walk.take_here(series_max, rows_max).await }).await;
        if let Some(walk) = home.lock().unwrap_or_else(PoisonError::into_inner).take() {
            *self = walk;
        }
        found
    }

    async fn take_here(&mut self, series_max: usize, rows_max: u64) -> Result<Vec<Found>, Error> {
        if self.is_away {
            // An earlier caller did not wait for the result.
            return Err(Error::Cancelled);
        }
        while self.found.len() < series_max && self.rows < rows_max {
            job::spend(self.cursors.len() * PLACE_UNITS)?;
            match self.read_pages().await {
                // The found series refer to pages, which are freed once these series are used.
                Err(Error::OverBudget(_)) if !self.found.is_empty() => break,
                read => read?,
            }
            let Some(found) = self.next_series() else { break };
            if self.is_in_part(&found) {
                self.rows += found.rows;
                self.found.push(found);
            }
        }
        self.rows = 0;
        Ok(std::mem::take(&mut self.found))
    }

    /// Reads the pages of the next series of all holders concurrently; one after the other if the
    /// query's memory does not suffice. If a page cannot be read, its block has no further series.
    async fn read_pages(&mut self) -> Result<(), Error> {
        let due: Vec<(usize, u32)> =
            self.cursors.iter_mut().enumerate().filter_map(|(at, one)| Some((at, one.page_due()?))).collect();
        if due.is_empty() {
            return Ok(());
        }
        self.context.check()?;
        due.iter().for_each(|(at, _)| self.cursors[*at].drop_page());
        let read =
            join_all(due.iter().map(|(at, number)| self.cursors[*at].read(*number, &self.wanted))).await;
        for ((at, number), mut held) in due.into_iter().zip(read) {
            if let Err(IndexError::Query(Error::OverBudget(_))) = held {
                held = self.cursors[at].read(number, &self.wanted).await;
            }
            let held = or_warn(&self.context, held)?.flatten();
            if let Cursor::Block { page, series, .. } = &mut self.cursors[at] {
                if held.is_none() {
                    **series = RoaringBitmap::new().into_iter().peekable();
                }
                *page = held.map(Arc::new);
            }
        }
        Ok(())
    }

    /// Compares the next series of two holders.
    fn compare(&mut self, (number, place): (usize, u32), (first, first_place): (usize, u32)) -> Ordering {
        let most = (ALIKE_OF_ALL / self.cursors.len().max(1)).clamp(1, ALIKE_MAX);
        let [first, cursor] = match self.cursors.get_disjoint_mut([first, number]) {
            Ok(cursors) => cursors,
            Err(_) => return Ordering::Equal,
        };
        let (Some(page), Cursor::Block { page: Some(own), alike, .. }) = (first.page(), &mut *cursor) else {
            return cursor.compare(place, first, first_place);
        };
        let own = &own.page;
        let Some(known) = KnownAlike::among(alike, most, &self.context, page, own) else {
            return compare_series(own.pairs(place), page.pairs(first_place));
        };
        let (of_first, of_own) = ((&**page, first_place), (&**own, place));
        if known.are_same(of_first, of_own) {
            return Ordering::Equal;
        }
        let order = match known.compare(of_first, of_own) {
            Some(order) => order.reverse(),
            None => compare_series(own.pairs(place), page.pairs(first_place)),
        };
        if order == Ordering::Equal {
            known.learn(of_first, of_own);
        }
        order
    }

    /// The holders of the next series, in order.
    fn next_members(&mut self) -> Option<Members> {
        let mut members: Option<Members> = None;
        for number in 0..self.cursors.len() {
            let Some(place) = self.cursors[number].next() else { continue };
            let Some(known) = &mut members else {
                members = Some(Members::One([(number, place)]));
                continue;
            };
            match self.compare((number, place), known[0]) {
                Ordering::Less => members = Some(Members::One([(number, place)])),
                Ordering::Equal => known.push((number, place), self.cursors.len()),
                Ordering::Greater => {}
            }
        }
        members
    }

    /// Whether the query reads the series, whose page of labels is still current.
    fn is_in_part(&self, found: &Found) -> bool {
        let part = self.context.part();
        if part.is_whole() {
            return true;
        }
        let (first, place) = found.members[0];
        part.has_labels(&match (&self.cursors[first], &found.labels) {
            (Cursor::Head { series, .. }, _) => Labels::from_pairs(series.pairs(place as usize)),
            (Cursor::Block { .. }, Some(FoundLabels::Held(held, place))) => {
                Labels::from_pairs(held.page.pairs(*place))
            }
            (Cursor::Block { .. }, Some(FoundLabels::Own(labels))) => Labels::from_pairs(labels.pairs()),
            (Cursor::Block { .. }, None) => Labels::default(),
        })
    }

    fn next_series(&mut self) -> Option<Found> {
        let members = self.next_members()?;
        let (first, place) = members[0];
        let bytes_of = |(name, value): (&str, &str)| (name.len() + value.len()) as u64 + LABEL_BYTES;
        let (labels, label_bytes) = match &self.cursors[first] {
            Cursor::Block { page: Some(held), .. } if self.held.may_hold(held, &self.context) => {
                let shown = held.page.pairs(place).filter(|(name, _)| self.shown.has(name));
                let bytes = shown.map(bytes_of).sum();
                (Some(FoundLabels::Held(Arc::clone(held), place)), bytes)
            }
            Cursor::Block { page, .. } => {
                let pairs = page.iter().flat_map(|held| held.page.pairs(place));
                let labels = OwnLabels::of(pairs.filter(|(name, _)| self.wanted.has(name)));
                let bytes = labels.pairs().map(bytes_of).sum();
                (Some(FoundLabels::Own(labels)), bytes)
            }
            Cursor::Head { series, .. } => (None, series.pairs(place as usize).map(bytes_of).sum()),
        };
        let (mut rows, mut head_rows) = (0, 0);
        for (number, place) in members.iter() {
            let cursor = &mut self.cursors[*number];
            let own = cursor.rows(*place);
            rows += own;
            head_rows += if matches!(cursor, Cursor::Head { .. }) { own } else { 0 };
            cursor.pass();
        }
        Some(Found { members, labels, label_bytes, rows, head_rows })
    }
}
