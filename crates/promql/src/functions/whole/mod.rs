//! Functions over the windows of a whole series of floats at once.
//!
//! What looks at one window at a time looks at each sample as often as windows overlap, and asks at each step
//! what is the same for all. Here a function has all windows before it: loops are over columns, sums of
//! whole numbers and extremes move with the windows, and what has to be folded sample by sample is folded
//! for several windows side by side. **Invariants:** the result is that of the function over single windows,
//! to the bit. Steps that do not count, by `some` or `pairs` of the places, may have any value.

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

use crate::ops::places::Places;
use crate::run::{ScalarArg, Scratch};

/// The floats of a series, without stale markers, and the windows of all steps.
pub struct Floats<'a> {
    /// Values of the samples that windows touch; there is at least one.
    pub values: &'a [f64],
    /// The windows.
    pub places: &'a Places,
    /// Length of a window in seconds.
    pub seconds: f64,
    /// Scalar arguments.
    pub args: &'a [ScalarArg],
}

impl Floats<'_> {
    /// The first and the last place of each window.
    fn windows(&self) -> impl Iterator<Item = (usize, usize)> + use<'_> {
        let pairs = self.places.first.iter().zip(&self.places.last);
        pairs.map(|(first, last)| (*first as usize, *last as usize))
    }

    /// Whether windows overlap so much that it pays to look at each sample once.
    fn overlap(&self) -> bool {
        self.places.samples > self.values.len() * 4
    }
}

/// Puts the value of each step.
pub type WholeFn = fn(&Floats<'_>, &mut Vec<f64>, &mut Scratch) -> Result<(), Error>;

/// A function over whole series.
#[derive(Clone, Copy)]
pub struct Whole {
    /// The function.
    pub function: WholeFn,
    /// Whether a window needs two samples.
    pub pairs: bool,
    /// Whether increases are extrapolated, and then by second.
    pub extrapolates: Option<bool>,
}

/// How many samples there are.
pub fn count(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    out.extend(floats.windows().map(|(first, last)| (last + 1 - first) as f64));
    Ok(())
}

/// 1.
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
