//! Functions that fold a window sample by sample: compensated sums, deviations, smoothing.
//!
//! Each step of a fold depends on the previous one, so several windows are folded in parallel lanes. Sums
//! of integers are exact in any order, so they are computed as differences of prefix sums.

use sandur_memory::job::spend;
use sandur_model::histogram::kahan_add;
use sandur_query::Error;

use super::Floats;
use crate::run::Scratch;

/// A fold over the samples of a window.
trait Fold: Copy {
    /// The state after the first sample.
    fn first(&self, value: f64) -> Self;
    /// Adds the next sample, the `n`-th counted from 1.
    fn next(&mut self, value: f64, n: f64);
    /// The result after `n` samples.
    fn result(&self, n: f64) -> f64;
}

/// The number of windows that are folded in parallel.
const LANES: usize = 8;

/// Folds all windows; `begin` returns the state of a step before its first sample.
fn fold<F: Fold>(floats: &Floats<'_>, out: &mut Vec<f64>, begin: impl Fn(usize) -> F) -> Result<(), Error> {
    let (values, places) = (floats.values, floats.places);
    let window = |step: usize| &values[places.first[step] as usize..=places.last[step] as usize];
    let steps = places.first.len();
    for from in (0..steps).step_by(LANES) {
        // In an incomplete group, the spare lanes repeat the last step.
        let step = |lane: usize| (from + lane).min(steps - 1);
        let windows: [&[f64]; LANES] = std::array::from_fn(|lane| window(step(lane)));
        let mut folds: [F; LANES] = std::array::from_fn(|lane| begin(step(lane)).first(windows[lane][0]));
        let shared = windows.iter().map(|window| window.len()).min().unwrap_or(0);
        spend(windows.iter().map(|window| window.len()).sum::<usize>() + LANES)?;
        let together = windows.map(|window| &window[..shared]);
        for n in 1..shared {
            let count = (n + 1) as f64;
            for (fold, window) in folds.iter_mut().zip(&together) {
                fold.next(window[n], count);
            }
        }
        for (fold, window) in folds.iter_mut().zip(&windows) {
            for (n, value) in window.iter().enumerate().skip(shared) {
                fold.next(*value, (n + 1) as f64);
            }
        }
        let results = folds.iter().zip(&windows).map(|(fold, window)| fold.result(window.len() as f64));
        out.extend(results.take(steps - from));
    }
    Ok(())
}

/// Up to this magnitude, sums of integers are exact.
const EXACT_MAX: f64 = (1u64 << 53) as f64;

/// The prefix sums of the values, if no sum of them is ever rounded.
fn exact_sums(floats: &Floats<'_>, scratch: &mut Scratch) -> Result<Option<Vec<f64>>, Error> {
    if !floats.overlap() {
        return Ok(None);
    }
    let values = floats.values;
    spend(values.len() * 2)?;
    let mut total = 0.0;
    for piece in values.chunks(256) {
        // A value that is not finite, or is too large, either differs from its integer conversion or makes
        // the total too large.
        let is_whole = piece.iter().fold(true, |whole, value| whole & ((*value as i64) as f64 == *value));
        total += piece.iter().map(|value| value.abs()).sum::<f64>();
        if !is_whole || total > EXACT_MAX {
            return Ok(None);
        }
    }
    scratch.add((values.len() as u64 + 1) * 8)?;
    let mut sums = Vec::with_capacity(values.len() + 1);
    let mut sum = 0.0;
    sums.push(sum);
    for value in values {
        sum += value;
        sums.push(sum);
    }
    Ok(Some(sums))
}

#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    lost: f64,
}

impl Fold for Sum {
    fn first(&self, value: f64) -> Self {
        let (sum, lost) = kahan_add(value, 0.0, 0.0);
        Self { sum, lost }
    }

    #[inline]
    fn next(&mut self, value: f64, _: f64) {
        (self.sum, self.lost) = kahan_add(value, self.sum, self.lost);
    }

    fn result(&self, _: f64) -> f64 {
        if self.sum.is_infinite() { self.sum } else { self.sum + self.lost }
    }
}

pub fn sum(floats: &Floats<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), Error> {
    if let Some(sums) = exact_sums(floats, scratch)? {
        out.extend(floats.windows().map(|(first, last)| sums[last + 1] - sums[first]));
        return Ok(());
    }
    fold(floats, out, |_| Sum::default())
}

/// The mean: from the sum while that does not overflow, then as a running mean.
#[derive(Clone, Copy, Default)]
struct Average {
    sum: f64,
    lost: f64,
    mean: f64,
    running: bool,
}

impl Average {
    #[cold]
    fn overflow(&mut self, value: f64, n: f64) {
        if !self.running {
            self.running = true;
            self.mean = self.sum / (n - 1.0);
            self.lost /= n - 1.0;
        }
        let part = (n - 1.0) / n;
        (self.mean, self.lost) = kahan_add(value / n, part * self.mean, part * self.lost);
    }
}

impl Fold for Average {
    fn first(&self, value: f64) -> Self {
        Self { sum: value, ..Self::default() }
    }

    #[inline]
    fn next(&mut self, value: f64, n: f64) {
        let (sum, lost) = kahan_add(value, self.sum, self.lost);
        match self.running || sum.is_infinite() {
            true => self.overflow(value, n),
            false => (self.sum, self.lost) = (sum, lost),
        }
    }

    fn result(&self, n: f64) -> f64 {
        if self.running { self.mean + self.lost } else { self.sum / n + self.lost / n }
    }
}

pub fn average(floats: &Floats<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), Error> {
    if let Some(sums) = exact_sums(floats, scratch)? {
        let mean = |(first, last): (usize, usize)| {
            let (sum, n) = (sums[last + 1] - sums[first], (last + 1 - first) as f64);
            sum / n + 0.0
        };
        out.extend(floats.windows().map(mean));
        return Ok(());
    }
    fold(floats, out, |_| Average::default())
}

#[derive(Clone, Copy, Default)]
struct Variance {
    mean: f64,
    mean_lost: f64,
    squares: f64,
    squares_lost: f64,
}

impl Fold for Variance {
    fn first(&self, value: f64) -> Self {
        let mut begun = Self::default();
        begun.next(value, 1.0);
        begun
    }

    #[inline]
    fn next(&mut self, value: f64, n: f64) {
        let delta = value - (self.mean + self.mean_lost);
        (self.mean, self.mean_lost) = kahan_add(delta / n, self.mean, self.mean_lost);
        let square = delta * (value - (self.mean + self.mean_lost));
        (self.squares, self.squares_lost) = kahan_add(square, self.squares, self.squares_lost);
    }

    fn result(&self, n: f64) -> f64 {
        (self.squares + self.squares_lost) / n
    }
}

pub fn variance(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    fold(floats, out, |_| Variance::default())
}

pub fn deviation(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    fold(floats, out, |_| Variance::default())?;
    out.iter_mut().for_each(|value| *value = value.sqrt());
    Ok(())
}

/// Double exponential smoothing.
#[derive(Clone, Copy)]
struct Smoothing {
    factor: f64,
    trend: f64,
    before: f64,
    smoothed: f64,
    slope: f64,
}

impl Fold for Smoothing {
    fn first(&self, value: f64) -> Self {
        Self { smoothed: value, ..*self }
    }

    #[inline]
    fn next(&mut self, value: f64, n: f64) {
        let slope = self.trend * (self.smoothed - self.before) + (1.0 - self.trend) * self.slope;
        self.slope = if n > 2.0 { slope } else { value - self.smoothed };
        let next = self.factor * value + (1.0 - self.factor) * (self.smoothed + self.slope);
        (self.before, self.smoothed) = (self.smoothed, next);
    }

    fn result(&self, _: f64) -> f64 {
        self.smoothed
    }
}

pub fn smoothing(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    let [factors, trends] = floats.args else {
        return Err(Error::Internal("smoothing without its factors".to_owned()));
    };
    for step in 0..floats.places.first.len() {
        if floats.places.some[step / 64] >> (step % 64) & 1 == 1 {
            crate::functions::statistics::check_smoothing(factors.at(step), trends.at(step))
                .map_err(Error::Invalid)?;
        }
    }
    fold(floats, out, |step| {
        let (factor, trend) = (factors.at(step), trends.at(step));
        Smoothing { factor, trend, before: 0.0, smoothed: 0.0, slope: 0.0 }
    })
}
