//! The floats of a group over all steps: columns to which series are added.
//!
//! Sums, means and deviations are exact until they are read ([`sandur_model::exact`]), so the order of series
//! does not matter. Loops process 64 steps at a time, without a branch per step if all of them have samples.

use sandur_memory::Reservation;
use sandur_model::exact::{ExactSums, Moments, RUN};
use sandur_query::Error;
use sandur_query::wire::{Fields, Put as _};

use crate::column::Column;
use crate::token::Kind;

/// The accumulated floats of a group.
pub struct Floats {
    steps: usize,
    /// A bit for each step with a sample.
    seen: Vec<u64>,
    /// For sums and means. Empty until the first series.
    sums: ExactSums,
    /// For extremes. Empty until the first series.
    best: Vec<f64>,
    /// For deviations.
    moments: Vec<Moments>,
    /// The number of series. Empty for operators that do not need it.
    count: Vec<f64>,
    /// The bytes of numbers that take more than [`Self::bytes`].
    more_bytes: u64,
}

/// The steps of one word of bits.
const WORD: usize = RUN;

impl Floats {
    /// The state of a group without series.
    pub fn new(op: Kind, steps: usize) -> Self {
        let count = if matches!(op, Kind::Avg | Kind::Count) { vec![0.0; steps] } else { Vec::new() };
        let deviates = matches!(op, Kind::Stddev | Kind::Stdvar);
        let moments = if deviates { vec![Moments::default(); steps] } else { Vec::new() };
        let (sums, best, seen) = (ExactSums::default(), Vec::new(), vec![0; steps.div_ceil(WORD)]);
        Self { steps, seen, sums, best, moments, count, more_bytes: 0 }
    }

    /// The bytes of a group whose sums fit into two floats.
    pub fn bytes(op: Kind, steps: usize) -> u64 {
        let of_step = match op {
            Kind::Avg => 24,
            Kind::Stddev | Kind::Stdvar => size_of::<Moments>(),
            Kind::Sum => 16,
            _ => 8,
        };
        (steps * of_step + steps.div_ceil(WORD) * 8) as u64
    }

    /// The bytes of sums that do not fit into two floats.
    pub fn more_bytes(&self) -> u64 {
        self.more_bytes + self.sums.wide_bytes()
    }

    /// Whether the step has a sample.
    pub fn has(&self, step: usize) -> bool {
        self.seen[step / WORD] >> (step % WORD) & 1 == 1
    }

    /// Adds a series of floats; for `count`, a series of samples of any kind.
    pub fn add(&mut self, op: Kind, column: Column) {
        if !self.count.is_empty() {
            self.count(&column);
        }
        match op {
            Kind::Count | Kind::Group => see(&mut self.seen, &column),
            Kind::Stddev | Kind::Stdvar => self.deviate(&column),
            Kind::Sum | Kind::Avg if self.sums.is_empty() => {
                (self.sums, self.seen) = (ExactSums::of_values(column.values), column.present);
            }
            Kind::Sum | Kind::Avg => self.sum(&column),
            _ if self.best.is_empty() => (self.best, self.seen) = (column.values, column.present),
            Kind::Max => self.choose(&column, |best, value| {
                best < value || best.is_nan() || best == value && best.is_sign_negative()
            }),
            _ => self.choose(&column, |best, value| {
                best > value || best.is_nan() || best == value && best.is_sign_positive()
            }),
        }
    }

    /// Adds the float of one step to a sum or mean.
    pub fn add_one(&mut self, step: usize, value: f64) {
        self.sums.prepare(self.steps);
        self.count.get_mut(step).into_iter().for_each(|count| *count += 1.0);
        match self.has(step) {
            true => self.sums.add(step, value),
            false => self.sums.begin(step, value),
        }
        self.seen[step / WORD] |= 1 << (step % WORD);
    }

    fn count(&mut self, column: &Column) {
        for (counts, bits) in self.count.chunks_mut(WORD).zip(&column.present) {
            match is_full(*bits, counts.len()) {
                true => counts.iter_mut().for_each(|count| *count += 1.0),
                false => each(*bits, |n| counts[n] += 1.0),
            }
        }
    }

    fn sum(&mut self, column: &Column) {
        self.sums.prepare(self.steps);
        let added = column.values.chunks(WORD).zip(&column.present);
        for (word, ((values, bits), seen)) in added.zip(&mut self.seen).enumerate() {
            let (start, old, new) = (word * WORD, *seen & bits, bits & !*seen);
            *seen |= bits;
            if is_full(old, values.len()) {
                self.sums.add_run(start, values);
                continue;
            }
            each(new, |n| self.sums.begin(start + n, values[n]));
            each(old, |n| self.sums.add(start + n, values[n]));
        }
    }

    /// Keeps the greatest or the least number of each step. Of the two zeros, the positive one is greater, so
    /// that the order of series does not matter.
    fn choose(&mut self, column: &Column, loses: impl Fn(f64, f64) -> bool) {
        let chosen = self.best.chunks_mut(WORD).zip(&mut self.seen);
        for ((best, seen), (values, bits)) in chosen.zip(column.values.chunks(WORD).zip(&column.present)) {
            let (old, new) = (*seen & bits, bits & !*seen);
            *seen |= bits;
            if is_full(old, best.len()) {
                let all = best.iter_mut().zip(values);
                all.for_each(|(best, value)| *best = if loses(*best, *value) { *value } else { *best });
                continue;
            }
            each(new, |n| best[n] = values[n]);
            each(old, |n| best[n] = if loses(best[n], values[n]) { values[n] } else { best[n] });
        }
    }

    /// Adds a series to the moments.
    fn deviate(&mut self, column: &Column) {
        see(&mut self.seen, column);
        for step in column.steps() {
            let moments = &mut self.moments[step];
            let before = moments.heap_bytes();
            moments.add(column.values[step]);
            self.more_bytes = self.more_bytes + moments.heap_bytes() - before;
        }
    }

    /// Adds the floats of the same group in another part of the series.
    pub fn merge(&mut self, op: Kind, other: Self) {
        let Self { seen, sums, best, moments, count, more_bytes, .. } = other;
        self.count.iter_mut().zip(count).for_each(|(own, more)| *own += more);
        self.more_bytes += more_bytes;
        self.moments.iter_mut().zip(&moments).for_each(|(own, more)| own.merge(more));
        if !best.is_empty() {
            return self.add(op, Column { present: seen, values: best, ..Column::default() });
        }
        if !sums.is_empty() {
            self.sums.prepare(self.steps);
        }
        for (word, (own, more)) in self.seen.iter_mut().zip(&seen).enumerate() {
            let old = *own;
            *own |= more;
            if sums.is_empty() {
                continue;
            }
            each(*more, |n| {
                let step = word * WORD + n;
                if old >> n & 1 == 0 {
                    self.sums.begin(step, 0.0);
                }
                self.sums.merge(step, &sums.get(step));
            });
        }
    }

    /// Writes the floats for another process.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_integers(1, &self.seen);
        if !self.sums.is_empty() {
            out.put_sums(2, &self.sums);
        }
        if !self.best.is_empty() {
            out.put_floats(3, &self.best);
        }
        if !self.count.is_empty() {
            out.put_floats(4, &self.count);
        }
        self.moments.iter().for_each(|moments| out.put_moments(5, moments));
    }

    /// Reads a field that [`Self::write`] wrote; returns whether it is one.
    pub fn read(
        &mut self,
        field: u32,
        from: &mut Fields<'_>,
        memory: &mut Reservation,
    ) -> Result<bool, Error> {
        match field {
            1 => self.seen = from.integers(memory)?,
            2 => self.sums = from.sums(self.steps, memory)?,
            3 => self.best = from.floats(memory)?,
            4 => self.count = from.floats(memory)?,
            5 => {
                memory.grow(size_of::<Moments>() as u64)?;
                self.moments.push(from.moments(memory)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A group that [`Self::read`] fills.
    pub fn unread(steps: usize) -> Self {
        Self { moments: Vec::new(), count: Vec::new(), ..Self::new(Kind::Sum, steps) }
    }

    /// Whether what was read is the state of an operator over this number of steps.
    pub fn is_of(&self, op: Kind) -> bool {
        let new = Self::new(op, self.steps);
        let has = |length: usize, is_kept: bool| length == 0 || is_kept && length == self.steps;
        let sums = matches!(op, Kind::Sum | Kind::Avg);
        let unused = match self.seen.last() {
            Some(last) if !self.steps.is_multiple_of(WORD) => last >> (self.steps % WORD),
            _ => 0,
        };
        self.seen.len() == new.seen.len()
            && unused == 0
            && has(self.sums.columns().0.len(), sums)
            && has(self.best.len(), matches!(op, Kind::Min | Kind::Max))
            && self.count.len() == new.count.len()
            && self.moments.len() == new.moments.len()
            && (self.seen.iter().all(|bits| *bits == 0) || !sums || !self.sums.is_empty())
    }

    /// The resulting series of the group, without its labels.
    pub fn finish(self, op: Kind) -> Column {
        let mut values = match op {
            Kind::Sum => self.sums.values(),
            Kind::Avg => self.sums.means(&self.count),
            Kind::Count => self.count,
            Kind::Group => vec![1.0; self.steps],
            Kind::Stdvar => self.moments.iter().map(Moments::variance).collect(),
            Kind::Stddev => self.moments.iter().map(|moments| moments.variance().sqrt()).collect(),
            _ => self.best,
        };
        values.resize(self.steps, 0.0);
        Column { present: self.seen, values, ..Column::default() }
    }
}

/// Records the steps at which a series has samples.
fn see(seen: &mut [u64], column: &Column) {
    seen.iter_mut().zip(&column.present).for_each(|(seen, bits)| *seen |= bits);
}

/// Whether the bits of all steps are set.
fn is_full(bits: u64, steps: usize) -> bool {
    bits.count_ones() as usize == steps
}

/// Calls `f` with the index of each bit that is set.
#[inline]
fn each(mut bits: u64, mut f: impl FnMut(usize)) {
    while bits != 0 {
        f(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}
