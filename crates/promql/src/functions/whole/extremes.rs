//! Largest and smallest values of sliding windows, by a monotonic queue: each sample is read once.

use std::collections::VecDeque;

use sandur_memory::job::spend;
use sandur_query::Error;

use super::Floats;
use crate::run::Scratch;

pub fn max(floats: &Floats<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), Error> {
    extremes(floats, scratch, |value, best| value > best, |place| out.push(floats.values[place]))
}

pub fn min(floats: &Floats<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), Error> {
    extremes(floats, scratch, |value, best| value < best, |place| out.push(floats.values[place]))
}

pub fn time_of_max(floats: &Floats<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), Error> {
    let times = floats.places.times();
    let put = |place: usize| out.push(times[place] as f64 / 1000.0);
    extremes(floats, scratch, |value, best| value >= best, put)
}

pub fn time_of_min(floats: &Floats<'_>, out: &mut Vec<f64>, scratch: &mut Scratch) -> Result<(), Error> {
    let times = floats.places.times();
    let put = |place: usize| out.push(times[place] as f64 / 1000.0);
    extremes(floats, scratch, |value, best| value <= best, put)
}

/// Computes the index of the winning sample of each window. NaN loses against every later sample.
fn extremes(
    floats: &Floats<'_>,
    scratch: &mut Scratch,
    wins: impl Fn(f64, f64) -> bool,
    mut put: impl FnMut(usize),
) -> Result<(), Error> {
    let values = floats.values;
    spend(values.len() * 2)?;
    if !floats.overlap() {
        for (first, last) in floats.windows() {
            let better = |best: usize, place: usize| match wins(values[place], values[best]) {
                false if !values[best].is_nan() => best,
                _ => place,
            };
            put((first + 1..=last).fold(first, better));
        }
        return Ok(());
    }
    // Indexes of samples that no later sample wins against. The first one is the window's winner.
    let mut candidates: VecDeque<u32> = VecDeque::new();
    let mut next = 0;
    let mut room = 0;
    for (first, last) in floats.windows() {
        next = next.max(first);
        while next <= last {
            let value = values[next];
            let loses = |place: &u32| {
                let best = values[*place as usize];
                wins(value, best) || best.is_nan()
            };
            while candidates.back().is_some_and(loses) {
                candidates.pop_back();
            }
            if candidates.len() == room {
                room = (room * 2).max(64);
                scratch.add(room as u64 * 4)?;
            }
            candidates.push_back(next as u32);
            next += 1;
        }
        while candidates.front().is_some_and(|place| (*place as usize) < first) {
            candidates.pop_front();
        }
        put(candidates.front().map_or(first, |place| *place as usize));
    }
    Ok(())
}
