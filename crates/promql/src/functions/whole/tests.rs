//! Goal: functions over all windows at once have the values of the functions over single windows.
//!
//! Method: random windows over series with gaps, resets and extreme numbers.

use proptest::prelude::*;
use sandur_query::SharedTimes;

use super::Floats;
use crate::column::Grid;
use crate::functions::window::{Counts, Site, Value, Window};
use crate::functions::{FUNCTIONS, Kernel};
use crate::labels::Text;
use crate::notes::Notes;
use crate::places::{KnownPlaces, Sliding};
use crate::run::{ScalarArg, Scratch};
use crate::span::Span;
use crate::timing::{Extension, Geometry, Timing};

const EDGES: [f64; 6] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 5e-324, 1e-300];

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (0i32..1000).prop_map(f64::from),
        4 => -1e6..1e6,
        1 => Just(0.0),
        1 => Just(-0.0),
        1 => prop::sample::select(&EDGES[..]),
    ]
}

/// Values of one kind: integers, counters, or any floats.
fn values(length: usize) -> impl Strategy<Value = Vec<f64>> {
    let counter = prop::collection::vec((0u32..50, 0.0..10.0), length..=length).prop_map(|growth| {
        let mut total = 0.0;
        let next = |(chance, growth): (u32, f64)| {
            total = if chance == 0 { growth } else { total + growth };
            total
        };
        growth.into_iter().map(next).collect()
    });
    prop_oneof![
        prop::collection::vec((-9i32..99).prop_map(f64::from), length..=length),
        prop::collection::vec(value(), length..=length),
        counter,
    ]
}

fn series() -> impl Strategy<Value = (Vec<i64>, Vec<f64>)> {
    let gaps = prop::collection::vec(
        prop_oneof![6 => Just(15_000i64), 2 => 1i64..40_000, 1 => Just(900_000)],
        1..150,
    );
    gaps.prop_flat_map(|gaps| {
        let times: Vec<i64> = gaps
            .iter()
            .scan(0, |at, gap| {
                *at += gap;
                Some(*at)
            })
            .collect();
        (Just(times), values(gaps.len()))
    })
}

/// The value of each step, computed from its window alone; `None` if there is none.
fn alone(
    function: crate::functions::window::RangeFn,
    (times, values): (&[i64], &[f64]),
    (grid, geometry): (&Grid, &Geometry),
    args: &[f64],
) -> Vec<Option<f64>> {
    let (counts, mut notes) = (Counts::default(), Notes::default());
    let nowhere = Span::default();
    let mut site = Site { notes: &mut notes, metric: Text::EMPTY, argument: nowhere, parameter: nowhere };
    let mut of_step = |step: usize| {
        let end = geometry.timing.reference(grid.time(step));
        let (after, until) = geometry.bounds(end);
        let floats = Sliding::default().move_to(times, after, until);
        if floats.is_empty() {
            return None;
        }
        let window = Window {
            series: values,
            from: floats.start,
            counts: &counts,
            times: &times[floats.clone()],
            values: &values[floats],
            starts: &[],
            histogram_times: &[],
            histograms: &[],
            histogram_starts: &[],
            at: grid.time(step),
            start: after,
            end,
            seen_from: after,
            seconds: geometry.range as f64 / 1000.0,
            extension: Extension::None,
            args,
        };
        match function(&window, &mut site) {
            Ok(Value::Float(value)) => Some(value),
            _ => None,
        }
    };
    (0..grid.steps).map(&mut of_step).collect()
}

/// The bits of values; all NaNs count as equal.
fn bits(values: &[Option<f64>]) -> Vec<Option<u64>> {
    let plain = |value: f64| if value.is_nan() { f64::NAN } else { value };
    values.iter().map(|value| value.map(|value| plain(value).to_bits())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn all_windows_at_once_equal_single_windows_to_the_bit(
        (times, values) in series(),
        (start, interval, steps) in (-100_000i64..3_000_000, 1i64..200_000, 1usize..100),
        (range, offset) in (1i64..600_000, -50_000i64..50_000),
        at in prop::option::weighted(0.1, 0i64..1_000_000),
        factors in (0.05..0.95, 0.05..0.95),
    ) {
        let grid = Grid { start, interval, steps };
        let timing = Timing { at, offset };
        let geometry = Geometry { timing, range, lookback: 0, extension: Extension::None };
        let list = SharedTimes::from(times.clone());
        let args = [factors.0, factors.1];
        let scalars = args.map(|value| ScalarArg::of_values(vec![value; steps]));
        for function in FUNCTIONS {
            let Kernel::Range(single, traits) = &function.kernel else { continue };
            let Some(whole) = traits.whole else { continue };
            let expected = alone(*single, (&times, &values), (&grid, &geometry), &args);
            let mut known = KnownPlaces::new(grid, geometry, whole.extrapolates);
            let mut found = vec![None; steps];
            // A list that is equal but not identical is found in the cache.
            for list in [list.clone(), SharedTimes::from(times.clone())] {
                let Some((places, range)) = known.of(&list).unwrap() else { continue };
                let seconds = geometry.range as f64 / 1000.0;
                let args = &scalars;
                let floats = Floats { values: &values[range], places, seconds, args };
                let mut out = Vec::new();
                (whole.function)(&floats, &mut out, &mut Scratch::default()).unwrap();
                prop_assert_eq!(out.len(), steps);
                let present = if whole.pairs { &places.pairs } else { &places.some };
                let has = |step: usize| present[step / 64] >> (step % 64) & 1 == 1;
                found = out.iter().enumerate().map(|(step, value)| has(step).then_some(*value)).collect();
            }
            prop_assert_eq!(bits(&found), bits(&expected), "{} {:?} {:?}", function.name, found, expected);
        }
    }
}
