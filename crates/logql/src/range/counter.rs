//! `rate_counter`: the increase per second of unwrapped counter values, with resets taken as restarts at 0.
//! As in Prometheus, it is extrapolated to the window's bounds.

use sandur_memory::Reservation;
use sandur_query::Error;
use sandur_query::wire::{Fields, Put as _, malformed};

use crate::range::function::unwrapped;
use crate::range::slots::{Slot, Table};
use crate::range::{RangeFunction, Window};

pub const TABLE: &[RangeFunction] = &[RangeFunction {
    grouping: false,
    ..unwrapped("rate_counter", "The increase per second of unwrapped counter values.", |setup| {
        Table::<Samples>::boxed(setup, rate)
    })
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

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn write(&self, out: &mut Vec<u8>) {
        let times: Vec<i64> = self.0.iter().map(|(timestamp, _)| *timestamp).collect();
        let values: Vec<f64> = self.0.iter().map(|(_, value)| *value).collect();
        out.put_times(1, &times);
        out.put_floats(2, &values);
    }

    fn read(&mut self, field: u32, from: &mut Fields<'_>, memory: &mut Reservation) -> Result<(), Error> {
        match field {
            1 => self.0 = from.times(memory)?.into_iter().map(|time| (time, 0.0)).collect(),
            2 => {
                let values = from.floats(memory)?;
                if values.len() != self.0.len() {
                    return Err(malformed("samples without times"));
                }
                self.0.iter_mut().zip(values).for_each(|(sample, value)| sample.1 = value);
            }
            _ => from.skip()?,
        }
        Ok(())
    }
}

fn rate(samples: &Samples, window: &Window) -> Option<f64> {
    let mut sorted = samples.0.clone();
    sorted.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
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
    // If a bound is not much farther away than the next sample would be, extrapolation reaches it.
    // Otherwise extrapolation ends after half of the average distance between samples.
    let reach = |gap: f64| if gap < between * 1.1 { gap } else { between / 2.0 };
    let mut before = reach((first.0 - (window.end_ns - window.range_ns)) as f64 / 1e9);
    if increase > 0.0 && first.1 >= 0.0 {
        // Counters are never negative: extrapolation ends where the counter would be zero.
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
    fn rate_counter_handles_resets() {
        assert_eq!(value("rate_counter", 0.0, &[(10, 5.0)]), Some(0.0));
        assert_eq!(value("rate_counter", 0.0, &[]), None);
        let steady = value("rate_counter", 0.0, &[(10, 100.0), (20, 110.0), (30, 120.0)]).unwrap();
        // The increase is 20 in 20 s. Extrapolation covers the 10 s to the start, and 5 s of the 30 s to
        // the end.
        assert!((steady - 35.0 / 60.0).abs() < 1e-9, "{steady}");
        let reset = value("rate_counter", 0.0, &[(10, 100.0), (20, 5.0), (30, 15.0)]).unwrap();
        assert!(reset > 0.0);
    }
}
