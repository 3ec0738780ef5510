//! `rate_counter`: unwrapped values are a counter; its increase per second, resets taken as restarts at 0,
//! extrapolated to the window's bounds as Prometheus does it.

use crate::range::slots::{Slot, Table};
use crate::range::{Argument, RangeFunction, RowValue, UnwrapUse, Window};

pub const TABLE: &[RangeFunction] = &[RangeFunction {
    name: "rate_counter",
    doc: "Increase per second of a counter that is unwrapped.",
    argument: Argument::Nothing,
    unwrap: UnwrapUse::Required,
    grouping: false,
    value: RowValue::One,
    sums: false,
    sharded: false,
    absent: false,
    start: |setup| Table::<Samples>::boxed(setup, rate),
}];

#[derive(Clone, Debug, Default)]
struct Samples(Vec<(i64, f64)>);

impl Slot for Samples {
    const COMPACT: bool = false;

    fn add(&mut self, timestamp: i64, value: f64) {
        self.0.push((timestamp, value));
    }

    fn merge(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    fn heap_bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<(i64, f64)>()) as u64
    }
}

fn rate(samples: &Samples, window: &Window) -> Option<f64> {
    let mut sorted = samples.0.clone();
    sorted.sort_by_key(|(timestamp, _)| *timestamp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    if sorted.len() < 2 {
        return Some(0.0);
    }
    let mut increase = last.1 - first.1;
    for pair in sorted.windows(2) {
        if pair[1].1 < pair[0].1 {
            increase += pair[0].1;
        }
    }
    let sampled = (last.0 - first.0) as f64 / 1e9;
    let between = sampled / (sorted.len() - 1) as f64;
    // A bound that is not much farther away than the next sample would be is reached by the trend; beyond
    // that the trend is taken on for half a distance.
    let reach = |gap: f64| if gap < between * 1.1 { gap } else { between / 2.0 };
    let mut before = reach((first.0 - (window.end_ns - window.range_ns)) as f64 / 1e9);
    if increase > 0.0 && first.1 >= 0.0 {
        // A counter was never below zero: where it began, the trend ends.
        before = before.min(sampled * (first.1 / increase));
    }
    let after = (window.end_ns - last.0) as f64 / 1e9;
    let stretched = (sampled + before + reach(after)) / sampled;
    Some(increase * stretched / window.range_seconds())
}

#[cfg(test)]
mod tests {
    use crate::range::slots::testing::value;

    #[test]
    fn counters_increase_and_restart() {
        assert_eq!(value("rate_counter", 0.0, &[(10, 5.0)]), Some(0.0));
        assert_eq!(value("rate_counter", 0.0, &[]), None);
        let steady = value("rate_counter", 0.0, &[(10, 100.0), (20, 110.0), (30, 120.0)]).unwrap();
        // 20 in 20 s; 10 s to the start are reached, of the 30 s to the end half a distance.
        assert!((steady - 35.0 / 60.0).abs() < 1e-9, "{steady}");
        let reset = value("rate_counter", 0.0, &[(10, 100.0), (20, 5.0), (30, 15.0)]).unwrap();
        assert!(reset > 0.0);
    }
}
