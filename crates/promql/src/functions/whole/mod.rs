//! Functions over all windows of a series of floats at once.
//!
//! Evaluating one window at a time reads a sample once for every window that includes it, and repeats tests
//! at each step that have the same result for all. Here a function gets all windows: loops run over
//! columns; sums of integers and extremes slide with the windows; other folds run over several windows in
//! parallel. **Invariants:** results equal those of single windows, to the bit. Steps that have no result,
//! by `some` or `pairs` of the places, may have any value.

mod extremes;
mod folds;
mod neighbours;
mod rates;
#[cfg(test)]
mod tests;

pub use extremes::{max, min, time_of_max, time_of_min};
pub use folds::{average, deviation, smoothing, sum, variance};
pub use neighbours::{changes, resets};
pub use rates::{delta, idelta, increase, irate, rate};

use sandur_query::Error;

use crate::places::Places;
use crate::run::{ScalarArg, Scratch};

/// The floats of a series without stale markers, and the windows of all steps.
pub struct Floats<'a> {
    /// The values of the samples that windows touch; at least one.
    pub values: &'a [f64],
    /// The windows.
    pub places: &'a Places,
    /// The length of a window, in seconds.
    pub seconds: f64,
    /// The scalar arguments.
    pub args: &'a [ScalarArg],
}

impl Floats<'_> {
    /// The index of the first and of the last sample of each window.
    fn windows(&self) -> impl Iterator<Item = (usize, usize)> + use<'_> {
        let pairs = self.places.first.iter().zip(&self.places.last);
        pairs.map(|(first, last)| (*first as usize, *last as usize))
    }

    /// Whether windows overlap so much that reading each sample only once pays off.
    fn overlap(&self) -> bool {
        self.places.samples > self.values.len() * 4
    }
}

/// Appends the value of each step to the output.
pub type WholeFn = fn(&Floats<'_>, &mut Vec<f64>, &mut Scratch) -> Result<(), Error>;

/// The implementation of a function over all windows at once.
#[derive(Clone, Copy)]
pub struct Whole {
    /// The function.
    pub function: WholeFn,
    /// Whether a window needs at least two samples.
    pub pairs: bool,
    /// Whether increases are extrapolated, and if so, whether the result is per second.
    pub extrapolates: Option<bool>,
}

/// The number of samples.
pub fn count(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    out.extend(floats.windows().map(|(first, last)| (last + 1 - first) as f64));
    Ok(())
}

/// 1 for each window.
pub fn present(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    out.resize(floats.places.first.len(), 1.0);
    Ok(())
}

/// The first sample.
pub fn first(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    out.extend(floats.places.first.iter().map(|place| floats.values[*place as usize]));
    Ok(())
}

/// The last sample.
pub fn last(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    out.extend(floats.places.last.iter().map(|place| floats.values[*place as usize]));
    Ok(())
}

/// The time of the first sample.
pub fn time_of_first(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    let times = floats.places.times();
    out.extend(floats.places.first.iter().map(|place| times[*place as usize] as f64 / 1000.0));
    Ok(())
}

/// The time of the last sample.
pub fn time_of_last(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    let times = floats.places.times();
    out.extend(floats.places.last.iter().map(|place| times[*place as usize] as f64 / 1000.0));
    Ok(())
}
