//! The floats of a group over all steps: columns to which series are added.
//!
//! Sums and means are compensated as in Prometheus, so that they agree to the bit. Loops process 64 steps
//! at a time, without a branch per step if all of them have samples.

use sandur_model::histogram::kahan_add;

use crate::column::Column;
use crate::token::Kind;

/// The accumulated floats of a group.
pub struct Floats {
    steps: usize,
    /// A bit for each step with a sample.
    seen: Vec<u64>,
    /// The sum, the extreme, or the sum of squared deviations. Empty until the first series.
    value: Vec<f64>,
    /// The compensation of the sum, or of the mean. Empty until the second series.
    lost: Vec<f64>,
    /// The mean for deviations, or the running mean after a sum overflowed. Empty until it is needed.
    mean: Vec<f64>,
    /// The number of series. Empty for operators that do not need it.
    count: Vec<f64>,
    /// A bit for each step at which a mean is kept as a running mean, because its sum overflowed.
    running: Vec<u64>,
}

/// The steps of one word of bits.
const WORD: usize = 64;

impl Floats {
    /// The state of a group without series.
    pub fn new(op: Kind, steps: usize) -> Self {
        let counts = matches!(op, Kind::Avg | Kind::Count | Kind::Stddev | Kind::Stdvar);
        let (value, lost, mean) = (Vec::new(), Vec::new(), Vec::new());
        let count = if counts { vec![0.0; steps] } else { Vec::new() };
        let (seen, running) = (vec![0; steps.div_ceil(WORD)], Vec::new());
        Self { steps, seen, value, lost, mean, count, running }
    }

    /// The most bytes of a group.
    pub fn bytes(op: Kind, steps: usize) -> u64 {
        let columns = match op {
            Kind::Avg => 4,
            Kind::Stddev | Kind::Stdvar => 3,
            Kind::Sum => 2,
            _ => 1,
        };
        (steps * 8 * columns + steps.div_ceil(WORD) * 16) as u64
    }

    /// Whether the step has a sample.
    pub fn has(&self, step: usize) -> bool {
        self.seen[step / WORD] >> (step % WORD) & 1 == 1
    }

    /// Adds a series of floats; for `count`, a series of samples of any kind.
    pub fn add(&mut self, op: Kind, column: Column) {
        if matches!(op, Kind::Count | Kind::Group | Kind::Avg | Kind::Stddev | Kind::Stdvar) {
            self.count(&column);
        }
        match op {
            Kind::Count | Kind::Group => see(&mut self.seen, &column),
            Kind::Stddev | Kind::Stdvar => self.deviate(&column),
            _ if self.value.is_empty() => (self.value, self.seen) = (column.values, column.present),
            Kind::Sum => self.sum(&column),
            Kind::Avg => self.average(&column),
            Kind::Max => self.choose(&column, |best, value| best < value || best.is_nan()),
            _ => self.choose(&column, |best, value| best > value || best.is_nan()),
        }
    }

    /// Adds the float of one step to a sum or mean.
    pub fn add_one(&mut self, op: Kind, step: usize, value: f64) {
        self.value.resize(self.steps, 0.0);
        self.lost.resize(self.steps, 0.0);
        self.count.get_mut(step).into_iter().for_each(|count| *count += 1.0);
        if !self.has(step) {
            self.seen[step / WORD] |= 1 << (step % WORD);
            self.value[step] = value;
        } else if op == Kind::Avg {
            self.add_to_mean(step, value);
        } else {
            (self.value[step], self.lost[step]) = kahan_add(value, self.value[step], self.lost[step]);
        }
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
        self.lost.resize(self.steps, 0.0);
        let sums = self.value.chunks_mut(WORD).zip(self.lost.chunks_mut(WORD));
        let added = column.values.chunks(WORD).zip(&column.present);
        for (((sums, lost), (values, bits)), seen) in sums.zip(added).zip(&mut self.seen) {
            let (old, new) = (*seen & bits, bits & !*seen);
            *seen |= bits;
            if is_full(old, sums.len()) {
                let all = sums.iter_mut().zip(lost).zip(values);
                all.for_each(|((sum, lost), value)| (*sum, *lost) = kahan_add(*value, *sum, *lost));
                continue;
            }
            each(new, |n| sums[n] = values[n]);
            each(old, |n| (sums[n], lost[n]) = kahan_add(values[n], sums[n], lost[n]));
        }
    }

    /// Adds a series to the means; the counts already include it.
    fn average(&mut self, column: &Column) {
        self.lost.resize(self.steps, 0.0);
        for word in 0..self.seen.len() {
            let bits = column.present[word];
            let (old, new) = (self.seen[word] & bits, bits & !self.seen[word]);
            self.seen[word] |= bits;
            let steps = word * WORD..self.steps.min((word + 1) * WORD);
            let (sums, lost) = (&mut self.value[steps.clone()], &mut self.lost[steps.clone()]);
            let values = &column.values[steps.clone()];
            let is_running = self.running.get(word).is_some_and(|running| *running != 0);
            let overflows = |(sum, value): (&f64, &f64)| (sum + value).is_infinite();
            let overflow = || sums.iter().zip(values).fold(false, |any, pair| any | overflows(pair));
            if is_full(old, steps.len()) && !is_running && !overflow() {
                let all = sums.iter_mut().zip(lost).zip(values);
                all.for_each(|((sum, lost), value)| (*sum, *lost) = kahan_add(*value, *sum, *lost));
                continue;
            }
            each(new, |n| sums[n] = values[n]);
            each(old, |n| self.add_to_mean(steps.start + n, values[n]));
        }
    }

    /// Adds a float to a mean: to its sum while that does not overflow, then to a running mean.
    fn add_to_mean(&mut self, step: usize, value: f64) {
        let (word, bit) = (step / WORD, 1 << (step % WORD));
        let count = self.count[step];
        if self.running.get(word).is_none_or(|running| running & bit == 0) {
            let (sum, lost) = kahan_add(value, self.value[step], self.lost[step]);
            if !sum.is_infinite() {
                (self.value[step], self.lost[step]) = (sum, lost);
                return;
            }
            self.running.resize(self.seen.len(), 0);
            self.mean.resize(self.steps, 0.0);
            self.running[word] |= bit;
            self.mean[step] = self.value[step] / (count - 1.0);
            self.lost[step] /= count - 1.0;
        }
        let part = (count - 1.0) / count;
        let (mean, lost) = (part * self.mean[step], part * self.lost[step]);
        (self.mean[step], self.lost[step]) = kahan_add(value / count, mean, lost);
    }

    fn choose(&mut self, column: &Column, loses: impl Fn(f64, f64) -> bool) {
        let chosen = self.value.chunks_mut(WORD).zip(&mut self.seen);
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

    /// Adds a series to the squared deviations; the counts already include it.
    fn deviate(&mut self, column: &Column) {
        self.value.resize(self.steps, 0.0);
        self.mean.resize(self.steps, 0.0);
        for word in 0..self.seen.len() {
            let bits = column.present[word];
            let (old, new) = (self.seen[word] & bits, bits & !self.seen[word]);
            self.seen[word] |= bits;
            let steps = word * WORD..self.steps.min((word + 1) * WORD);
            let states = self.value[steps.clone()].iter_mut().zip(&mut self.mean[steps.clone()]);
            let added = column.values[steps.clone()].iter().zip(&self.count[steps.clone()]);
            if is_full(old, steps.len()) {
                for ((squares, mean), (value, count)) in states.zip(added) {
                    let delta = value - *mean;
                    *mean += delta / count;
                    *squares += delta * (value - *mean);
                }
                continue;
            }
            for (n, ((squares, mean), (value, count))) in states.zip(added).enumerate() {
                if new >> n & 1 == 1 {
                    (*squares, *mean) = (if value.is_finite() { 0.0 } else { f64::NAN }, *value);
                } else if old >> n & 1 == 1 {
                    let delta = value - *mean;
                    *mean += delta / count;
                    *squares += delta * (value - *mean);
                }
            }
        }
    }

    /// The resulting series of the group, without its labels.
    pub fn finish(mut self, op: Kind) -> Column {
        let mut values = std::mem::take(&mut self.value);
        match op {
            Kind::Sum if self.lost.is_empty() => values.iter_mut().for_each(|sum| *sum += 0.0),
            Kind::Sum => values.iter_mut().zip(&self.lost).for_each(|(sum, lost)| *sum += lost),
            Kind::Avg => {
                self.lost.resize(values.len(), 0.0);
                let sums = values.iter_mut().zip(&self.lost).zip(&self.count);
                sums.for_each(|((sum, lost), count)| *sum = *sum / count + lost / count);
                for (word, bits) in self.running.iter().enumerate() {
                    each(*bits, |n| {
                        let step = word * WORD + n;
                        values[step] = self.mean[step] + self.lost[step];
                    });
                }
            }
            Kind::Count => values = self.count,
            Kind::Group => values = vec![1.0; self.steps],
            Kind::Stdvar => values.iter_mut().zip(&self.count).for_each(|(value, count)| *value /= count),
            Kind::Stddev => {
                let all = values.iter_mut().zip(&self.count);
                all.for_each(|(value, count)| *value = (*value / count).sqrt());
            }
            _ => {}
        }
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
