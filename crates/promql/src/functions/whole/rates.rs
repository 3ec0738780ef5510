//! Rates and differences: from the first and the last sample of each window, and the values lost at resets
//! between them.

use sandur_memory::job::spend;
use sandur_query::Error;

use super::Floats;
use crate::run::Scratch;

pub fn rate(floats: &Floats<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), Error> {
    counter(floats, out, scratch, Some(floats.seconds))
}

pub fn increase(floats: &Floats<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), Error> {
    counter(floats, out, scratch, None)
}

pub fn delta(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    let (values, factors) = (floats.values, &floats.places.extrapolation.factor);
    out.extend(floats.windows().zip(factors).map(|((first, last), factor)| {
        let difference = values[last] - values[first];
        difference * factor
    }));
    Ok(())
}

/// The increase of a counter. Extrapolation to the start of the window stops where the counter would be
/// zero.
fn counter(
    floats: &Floats<'_>,
    out: &mut Vec<f64>,
    scratch: &mut Scratch,
    seconds: Option<f64>,
) -> Result<(), Error> {
    let values = floats.values;
    let e = &floats.places.extrapolation;
    let times = e.factor.iter().zip(&e.sampled).zip(&e.to_start).zip(&e.to_end);
    out.extend(floats.windows().zip(times).map(
        |((first, last), (((factor, sampled), to_start), to_end))| {
            let (first, last) = (values[first], values[last]);
            let growth = last - first;
            match may_begin_inside(first, growth, *sampled, *to_start) {
                false => growth * factor,
                true => from_zero(first, growth, (*sampled, *to_start, *to_end), seconds),
            }
        },
    ));
    if has_falls(values) {
        correct(floats, out, scratch, seconds)?;
    }
    Ok(())
}

/// Whether extrapolation from the first sample may reach zero inside the window. A cheap test, with false
/// positives but no false negatives.
#[inline]
fn may_begin_inside(first: f64, growth: f64, sampled: f64, to_start: f64) -> bool {
    // first / growth * sampled < to_start, with a margin for rounding.
    first * sampled <= growth * to_start * (1.0 + 1e-12) + 1e-290
}

/// The increase for a first sample so small that extrapolation may reach zero.
#[cold]
fn from_zero(
    first: f64,
    growth: f64,
    (sampled, to_start, to_end): (f64, f64, f64),
    seconds: Option<f64>,
) -> f64 {
    let mut to_start = to_start;
    if growth > 0.0 && first >= 0.0 {
        let to_zero = sampled * (first / growth);
        if to_zero < to_start {
            to_start = to_zero;
        }
    }
    let factor = (sampled + to_start + to_end) / sampled;
    growth * seconds.map_or(factor, |seconds| factor / seconds)
}

fn has_falls(values: &[f64]) -> bool {
    // Pieces are tested without a branch for each value.
    let mut at = 0;
    while at + 1 < values.len() {
        let to = values.len().min(at + 256);
        let pairs = values[at..to].iter().zip(&values[at + 1..values.len().min(to + 1)]);
        if pairs.fold(false, |falls, (before, value)| falls | (value < before)) {
            return true;
        }
        at = to;
    }
    false
}

/// Recomputes the windows in which the counter fell.
#[cold]
fn correct(
    floats: &Floats<'_>,
    out: &mut [f64],
    scratch: &mut Scratch,
    seconds: Option<f64>,
) -> Result<(), Error> {
    let (values, e) = (floats.values, &floats.places.extrapolation);
    scratch.add(values.len() as u64 * 4)?;
    spend(values.len())?;
    let falls: Vec<u32> =
        (1..values.len()).filter(|n| values[*n] < values[*n - 1]).map(|n| n as u32).collect();
    let (mut from, mut to) = (0, 0);
    for (step, (first, last)) in floats.windows().enumerate() {
        let is_after = |fall: Option<&u32>, place: usize| fall.is_none_or(|fall| *fall as usize > place);
        while !is_after(falls.get(from), first) {
            from += 1;
        }
        while !is_after(falls.get(to), last) {
            to += 1;
        }
        let Some(inside) = falls.get(from..to).filter(|inside| !inside.is_empty()) else { continue };
        spend(inside.len() + 8)?;
        let mut growth = values[last] - values[first];
        for fall in inside {
            growth += values[*fall as usize - 1];
        }
        let sides = (e.sampled[step], e.to_start[step], e.to_end[step]);
        out[step] = match may_begin_inside(values[first], growth, sides.0, sides.1) {
            false => growth * e.factor[step],
            true => from_zero(values[first], growth, sides, seconds),
        };
    }
    Ok(())
}

pub fn irate(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    last_two(floats, out, |before, last, seconds| {
        let growth = if last < before { last } else { last - before };
        growth / seconds
    });
    Ok(())
}

pub fn idelta(floats: &Floats<'_>, out: &mut Vec<f64>, _: &mut Scratch) -> Result<(), Error> {
    last_two(floats, out, |before, last, _| last - before);
    Ok(())
}

fn last_two(floats: &Floats<'_>, out: &mut Vec<f64>, f: impl Fn(f64, f64, f64) -> f64) {
    let (values, times) = (floats.values, floats.places.times());
    out.extend(floats.places.last.iter().map(|last| {
        let last = *last as usize;
        let before = last.saturating_sub(1);
        f(values[before], values[last], (times[last] - times[before]) as f64 / 1000.0)
    }));
}
