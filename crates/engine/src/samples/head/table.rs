//! The series of one tenant in a head: their identities, and their samples.
//!
//! Series are numbered in the order of their arrival, in segments of [`SEGMENT`]. A full segment is
//! shared with readers; of the open one they get a copy. The identity of a series (its id, and its
//! labels as numbers of strings) never changes. Its samples are under the lock of the segment, so an
//! inserter that appends the series of a scrape in order takes one lock for hundreds of them.
//!
//! Label names repeat: the names of a series are one number of a list of names, its *shape*. Those of
//! series are also in a tree of their paths ([`super::paths`]).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use sandur_model::{Labels, StreamId};

use super::paths::Paths;
use super::postings::Index;
use super::rows::SeriesRows;
use super::symbols::{Symbols, Texts};
use crate::growing::Growing;
use crate::path_labels::{last_write_wins, level_of};

/// Number of series in a segment.
pub(super) const SEGMENT: usize = 256;
/// Bytes of a series in addition to its labels and samples: id, shape and end of labels, its entry in
/// the table of ids, its rows, its position in the order, and what a flush needs to compute that order.
pub(super) const SERIES_BYTES: u64 = 24 + 10 + size_of::<SeriesRows>() as u64 + 8 + 24;
/// Bytes of a label of a series in addition to its postings.
pub(super) const LABEL_BYTES: u64 = size_of::<u32>() as u64;
/// Bytes of a shape in addition to its names and levels.
const SHAPE_BYTES: u64 = 96;

/// The samples of the series of a segment.
type Rows = Arc<Mutex<Vec<SeriesRows>>>;

/// The identities of the series of a segment.
#[derive(Clone, Default)]
struct Identities {
    ids: Vec<StreamId>,
    shapes: Vec<u32>,
    /// The end of the values of each series.
    ends: Vec<u32>,
    values: Vec<u32>,
}

/// A range of series.
#[derive(Default)]
pub(super) struct Segment {
    identities: Identities,
    rows: Rows,
}

/// All series of a tenant.
#[derive(Default)]
pub(super) struct SeriesTable {
    by_id: HashTable<u32>,
    full: Arc<Vec<Arc<Segment>>>,
    open: Identities,
    open_rows: Rows,
    shape_numbers: HashMap<Arc<[u32]>, u32, RandomState>,
    shapes: Growing<Arc<[u32]>>,
    /// The positions of the labels of a path's levels, for each shape.
    levels: Vec<Box<[u32]>>,
    symbols: Symbols,
    index: Index,
    paths: Paths,
    bytes: u64,
}

/// All series at one moment.
#[derive(Clone, Default)]
pub(super) struct Snapshot {
    full: Arc<Vec<Arc<Segment>>>,
    open: Arc<Segment>,
    shapes: Growing<Arc<[u32]>>,
    pub(super) texts: Texts,
}

impl Identities {
    fn len(&self) -> usize {
        self.ids.len()
    }

    fn values(&self, at: usize) -> &[u32] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.values[start..self.ends[at] as usize]
    }
}

impl Segment {
    /// Locks the samples.
    pub(super) fn rows(&self) -> MutexGuard<'_, Vec<SeriesRows>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hash of an id, which is itself a hash.
fn hash_of(id: StreamId) -> u64 {
    id.0 as u64
}

impl SeriesTable {
    /// The number of series.
    pub(super) fn len(&self) -> usize {
        self.full.len() * SEGMENT + self.open.len()
    }

    fn id(&self, number: u32) -> Option<StreamId> {
        let (segment, at) = (number as usize / SEGMENT, number as usize % SEGMENT);
        match self.full.get(segment) {
            Some(segment) => segment.identities.ids.get(at).copied(),
            None if segment == self.full.len() => self.open.ids.get(at).copied(),
            None => None,
        }
    }

    /// Returns the number of a series. Tries `guess` first, because in most requests series are in the
    /// order of earlier requests.
    #[inline]
    pub(super) fn find(&self, id: StreamId, guess: u32) -> Option<u32> {
        if self.id(guess) == Some(id) {
            return Some(guess);
        }
        self.by_id.find(hash_of(id), |number| self.id(*number) == Some(id)).copied()
    }

    /// Adds a series that is not in the table.
    pub(super) fn add(&mut self, id: StreamId, labels: &Labels) -> u32 {
        let number = self.len() as u32;
        let names: Vec<u32> = labels.iter().map(|(name, _)| self.symbols.number(name)).collect();
        for ((_, value), name) in labels.iter().zip(&names) {
            let value = self.symbols.number(value);
            self.open.values.push(value);
            self.index.add(*name, value, number);
        }
        let shape = self.shape(names);
        let values = &self.open.values[self.open.values.len() - labels.len()..];
        let levels = self.levels.get(shape as usize).map_or(&[][..], |levels| levels);
        self.paths.add(levels.iter().map(|place| values[*place as usize]), number);
        let rows = SeriesRows::new(last_write_wins(labels));
        self.open.ids.push(id);
        self.open.shapes.push(shape);
        self.open.ends.push(self.open.values.len() as u32);
        self.open_rows.lock().unwrap_or_else(PoisonError::into_inner).push(rows);
        self.bytes += SERIES_BYTES + labels.len() as u64 * LABEL_BYTES;
        if self.open.len() == SEGMENT {
            let mut identities = std::mem::take(&mut self.open);
            identities.values.shrink_to_fit();
            let rows = std::mem::take(&mut self.open_rows);
            Arc::make_mut(&mut self.full).push(Arc::new(Segment { identities, rows }));
        }
        let Self { by_id, full, open, .. } = self;
        let hash = |number: &u32| {
            let (segment, at) = (*number as usize / SEGMENT, *number as usize % SEGMENT);
            hash_of(full.get(segment).map_or_else(|| open.ids[at], |segment| segment.identities.ids[at]))
        };
        by_id.insert_unique(hash_of(id), number, hash);
        number
    }

    fn shape(&mut self, names: Vec<u32>) -> u32 {
        if let Some(number) = self.shape_numbers.get(names.as_slice()) {
            return *number;
        }
        let (names, number): (Arc<[u32]>, _) = (names.into(), self.shapes.len() as u32);
        let levels = self.levels_of(&names);
        self.bytes += SHAPE_BYTES + (names.len() + levels.len()) as u64 * 4;
        self.levels.push(levels);
        self.shapes.push(Arc::clone(&names));
        self.shape_numbers.insert(names, number);
        number
    }

    /// The positions of the labels of a path's levels among these names: of the first level, the second,
    /// and so on.
    fn levels_of(&self, names: &[u32]) -> Box<[u32]> {
        let level = |(place, name): (u32, &u32)| Some((level_of(self.symbols.get(*name))?, place));
        let mut levels: Vec<(usize, u32)> = (0..).zip(names).filter_map(level).collect();
        levels.sort_unstable();
        let without_gaps = levels.into_iter().zip(0..).take_while(|((level, _), expected)| level == expected);
        without_gaps.map(|((_, place), _)| place).collect()
    }

    /// The tree of paths.
    pub(super) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The index of labels to series.
    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// The label names and values.
    pub(super) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Bytes of everything except samples.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes + self.symbols.bytes() + self.index.bytes() + self.paths.bytes()
    }

    /// A snapshot of all series.
    pub(super) fn snapshot(&self) -> Snapshot {
        let open = Segment { identities: self.open.clone(), rows: Arc::clone(&self.open_rows) };
        let (full, shapes) = (Arc::clone(&self.full), self.shapes.clone());
        Snapshot { full, open: Arc::new(open), shapes, texts: self.symbols.texts() }
    }

    /// Locks the samples of a segment.
    pub(super) fn rows(&self, segment: usize) -> MutexGuard<'_, Vec<SeriesRows>> {
        match self.full.get(segment) {
            Some(segment) => segment.rows(),
            None => self.open_rows.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl Snapshot {
    /// The number of series.
    pub(super) fn len(&self) -> usize {
        self.full.len() * SEGMENT + self.open.identities.len()
    }

    /// The segment of a series, and its position there.
    pub(super) fn place(&self, number: u32) -> (&Segment, usize) {
        let (segment, at) = (number as usize / SEGMENT, number as usize % SEGMENT);
        (self.full.get(segment).map_or(&*self.open, |segment| &**segment), at)
    }

    /// The identity of a series.
    pub(super) fn id(&self, number: u32) -> StreamId {
        let (segment, at) = self.place(number);
        segment.identities.ids[at]
    }

    /// The numbers of the names and values of a series' labels, by name.
    pub(super) fn pairs(&self, number: u32) -> impl ExactSizeIterator<Item = (u32, u32)> + Clone + '_ {
        let (segment, at) = self.place(number);
        let names = self.shapes.get(segment.identities.shapes[at] as usize);
        names.iter().copied().zip(segment.identities.values(at).iter().copied())
    }

    /// The number of the value of a label.
    pub(super) fn value(&self, number: u32, name: u32) -> Option<u32> {
        self.pairs(number).find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// The names and values of a series' labels, by name.
    pub(super) fn texts_of(&self, number: u32) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.pairs(number).map(|(name, value)| (self.texts.get(name), self.texts.get(value)))
    }

    /// The labels of a series.
    pub(super) fn labels(&self, number: u32) -> Labels {
        self.texts.labels(self.pairs(number))
    }

    /// All segments in order.
    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        let open = std::iter::once(&*self.open).filter(|open| open.identities.len() > 0);
        self.full.iter().map(|segment| &**segment).chain(open)
    }
}
