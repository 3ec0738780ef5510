//! Finds the windows of all steps in a list of timestamps.
//!
//! The series of one target share their timestamps, and the bounds of windows depend on timestamps alone.
//! So windows are computed once for each distinct list and reused for the series that follow. A list is
//! recognized by its identity or by equal contents. **Invariants:** places never decrease from step to
//! step, and are valid indexes even for steps with an empty window. The memory is reserved and bounded.

use std::ops::Range;

use sandur_memory::Stopped;
use sandur_memory::job::{JobMemory, spend};
use sandur_query::SharedTimes;

use crate::column::Grid;
use crate::timing::{Extension, Geometry};

/// A window over sorted timestamps that moves forward.
#[derive(Clone, Copy, Default)]
pub struct Sliding {
    from: usize,
    to: usize,
}

impl Sliding {
    /// The indexes of timestamps after `after` and up to `until`. Neither bound may decrease between calls.
    #[inline]
    pub fn move_to(&mut self, times: &[i64], after: i64, until: i64) -> Range<usize> {
        self.from = advance(times, self.from, after);
        self.to = advance(times, self.to.max(self.from), until);
        self.from..self.to
    }
}

/// The first index from `at` on whose timestamp is after `limit`.
#[inline]
pub fn advance(times: &[i64], mut at: usize, limit: i64) -> usize {
    // Steps are often close to each other, so a few linear steps precede the binary search.
    for _ in 0..8 {
        match times.get(at) {
            Some(time) if *time <= limit => at += 1,
            _ => return at,
        }
    }
    at + times[at..].partition_point(|time| *time <= limit)
}

/// The parts of a rate that depend on timestamps alone, for each step.
#[derive(Default)]
pub struct Extrapolation {
    /// Seconds between the first and the last sample; NaN for fewer than two samples.
    pub sampled: Vec<f64>,
    /// Seconds of extrapolation before the first sample; the values of a counter may limit it further.
    pub to_start: Vec<f64>,
    /// Seconds of extrapolation after the last sample.
    pub to_end: Vec<f64>,
    /// The factor by which an increase is multiplied when it is extrapolated over these.
    pub factor: Vec<f64>,
}

/// The windows of all steps in one list of timestamps.
#[derive(Default)]
pub struct Places {
    times: SharedTimes,
    /// The part of the list that windows touch; all other indexes are relative to its start.
    range: Range<usize>,
    /// The first and the last timestamp of that part.
    ends: (i64, i64),
    /// The index of the first sample of each window.
    pub first: Vec<u32>,
    /// The index of the last sample of each window.
    pub last: Vec<u32>,
    /// A bit for each step: its window has a sample.
    pub some: Vec<u64>,
    /// A bit for each step: its window has at least two samples.
    pub pairs: Vec<u64>,
    /// For rates; else empty.
    pub extrapolation: Extrapolation,
    /// The number of samples of all windows together.
    pub samples: usize,
}

impl Places {
    /// The timestamps that windows touch.
    pub fn times(&self) -> &[i64] {
        &self.times[self.range.clone()]
    }

    fn find(&mut self, times: &SharedTimes, range: Range<usize>, grid: &Grid, geometry: &Geometry) {
        (self.times, self.range) = (times.clone(), range);
        let times = &times[self.range.clone()];
        self.ends = (times.first().copied().unwrap_or(0), times.last().copied().unwrap_or(0));
        let words = grid.steps.div_ceil(STEPS_PER_WORD);
        for (places, bits) in [(&mut self.first, &mut self.some), (&mut self.last, &mut self.pairs)] {
            places.resize(grid.steps, 0);
            bits.resize(words, 0);
        }
        let (mut window, last_sample) = (Sliding::default(), times.len().saturating_sub(1));
        let (mut step, mut samples) = (0, 0);
        let places = self.first.chunks_mut(STEPS_PER_WORD).zip(self.last.chunks_mut(STEPS_PER_WORD));
        let bits = self.some.iter_mut().zip(&mut self.pairs);
        for ((first, last), (some, pairs)) in places.zip(bits) {
            (*some, *pairs) = (0, 0);
            for (n, (first, last)) in first.iter_mut().zip(last).enumerate() {
                let (after, until) = geometry.bounds(geometry.timing.reference(grid.time(step)));
                let Range { start, end } = window.move_to(times, after, until);
                let count = end - start;
                *first = start.min(last_sample) as u32;
                *last = if count > 0 { end as u32 - 1 } else { *first };
                *some |= u64::from(count > 0) << n;
                *pairs |= u64::from(count > 1) << n;
                samples += count;
                step += 1;
            }
        }
        self.samples = samples;
    }

    fn extrapolate(&mut self, grid: &Grid, geometry: &Geometry, per_second: bool) {
        let times = &self.times[self.range.clone()];
        let Extrapolation { sampled, to_start, to_end, factor } = &mut self.extrapolation;
        for column in [&mut *sampled, to_start, to_end, factor] {
            column.clear();
            column.reserve_exact(grid.steps);
        }
        let seconds = |ms: i64| ms as f64 / 1000.0;
        for (step, (first, last)) in self.first.iter().zip(&self.last).enumerate() {
            let end = geometry.timing.reference(grid.time(step));
            let start = end.saturating_sub(geometry.range);
            if last == first {
                sampled.push(f64::NAN);
                [&mut *to_start, to_end, factor].into_iter().for_each(|column| column.push(0.0));
                continue;
            }
            let (first_at, last_at) = (times[*first as usize], times[*last as usize]);
            let (before, after) = (seconds(first_at - start), seconds(end - last_at));
            let length = seconds(last_at - first_at);
            let average = length / f64::from(last - first);
            let threshold = average * 1.1;
            let bounded = |side: f64| if side >= threshold { average / 2.0 } else { side };
            let (before, after) = (bounded(before), bounded(after));
            let whole = (length + before + after) / length;
            sampled.push(length);
            to_start.push(before);
            to_end.push(after);
            factor.push(if per_second { whole / seconds(geometry.range) } else { whole });
        }
    }
}

/// The steps of one word of bits.
const STEPS_PER_WORD: usize = u64::BITS as usize;

/// The most lists whose windows are cached.
const LISTS_MAX: usize = 64;
/// The most bytes of the cache, if it has more than one list.
const LISTS_BYTES: u64 = 4 << 20;

/// A cache of windows for the most recent lists of timestamps.
pub struct KnownPlaces {
    grid: Grid,
    geometry: Geometry,
    /// Whether increases are extrapolated, and if so, whether the result is per second.
    extrapolates: Option<bool>,
    lists: Vec<Places>,
    /// The list of the last series.
    current: usize,
    /// The list that was replaced last.
    oldest: usize,
    held: JobMemory,
    /// The bytes of the largest list.
    list_bytes: u64,
}

impl KnownPlaces {
    /// A cache for windows without `anchored` or `smoothed`.
    pub fn new(grid: Grid, geometry: Geometry, extrapolates: Option<bool>) -> Self {
        debug_assert!(geometry.extension == Extension::None);
        let (lists, held) = (Vec::new(), JobMemory::default());
        Self { grid, geometry, extrapolates, lists, current: 0, oldest: 0, held, list_bytes: 0 }
    }

    /// The part of a list that windows touch.
    pub fn touched(&self, times: &SharedTimes) -> Range<usize> {
        let mut known = self.lists.get(self.current).into_iter().chain(&self.lists);
        if let Some(list) = known.find(|list| list.times.is_shared_with(times)) {
            return list.range.clone();
        }
        self.touched_of(times)
    }

    /// The part of a list that is not cached.
    fn touched_of(&self, times: &SharedTimes) -> Range<usize> {
        let of_step = |step| self.geometry.bounds(self.geometry.timing.reference(self.grid.time(step)));
        let (after, until) = (of_step(0).0, of_step(self.grid.steps.max(1) - 1).1);
        let from = times.partition_point(|time| *time <= after);
        from..advance(times, from, until)
    }

    /// The windows in a list, and the part of it to which they are relative; `None` if no window touches
    /// the list.
    pub fn of(&mut self, times: &SharedTimes) -> Result<Option<(&Places, Range<usize>)>, Stopped> {
        let is_same = |list: &Places| list.times.is_shared_with(times);
        if !self.lists.get(self.current).is_some_and(is_same) {
            match self.lists.iter().position(is_same) {
                Some(known) => self.current = known,
                None => return self.of_new(times),
            }
        }
        let list = &self.lists[self.current];
        Ok(Some((list, list.range.clone())))
    }

    /// The windows in a list that is not cached by identity, but may be by content.
    fn of_new(&mut self, times: &SharedTimes) -> Result<Option<(&Places, Range<usize>)>, Stopped> {
        let range = self.touched_of(times);
        let part = &times[range.clone()];
        let (Some(first), Some(last)) = (part.first(), part.last()) else { return Ok(None) };
        let ends = (*first, *last);
        let is_equal =
            |list: &Places| list.ends == ends && list.range.len() == part.len() && list.times() == part;
        spend(part.len() / 4)?;
        let current = self.lists.get(self.current).is_some_and(is_equal).then_some(self.current);
        if let Some(known) = current.or_else(|| self.lists.iter().position(is_equal)) {
            self.current = known;
            return Ok(Some((&self.lists[known], range)));
        }
        self.current = self.room_for(times.len())?;
        spend(self.grid.steps * if self.extrapolates.is_some() { 16 } else { 8 })?;
        let list = &mut self.lists[self.current];
        list.find(times, range.clone(), &self.grid, &self.geometry);
        if let Some(per_second) = self.extrapolates {
            list.extrapolate(&self.grid, &self.geometry, per_second);
        }
        Ok(Some((&self.lists[self.current], range)))
    }

    /// The number of a cache entry that may be overwritten.
    fn room_for(&mut self, times: usize) -> Result<usize, Stopped> {
        let step_bytes = if self.extrapolates.is_some() { 42 } else { 10 };
        let bytes = (times * 8 + self.grid.steps * step_bytes + size_of::<Places>()) as u64;
        self.list_bytes = self.list_bytes.max(bytes);
        let most = ((LISTS_BYTES / self.list_bytes) as usize).clamp(1, LISTS_MAX);
        let wanted = most.min(self.lists.len() + 1);
        if !self.held.has_room_for(wanted as u64 * self.list_bytes)? {
            self.held.at_least(self.list_bytes)?;
        }
        let held = most.min((self.held.bytes() / self.list_bytes) as usize);
        self.lists.truncate(held);
        if self.lists.len() < held {
            self.lists.push(Places::default());
            return Ok(self.lists.len() - 1);
        }
        self.oldest = (self.oldest + 1) % self.lists.len();
        Ok(self.oldest)
    }
}
