//! Functions that make one value of many: of the values of a series, or of what series have at one time.
//!
//! Sums run from left to right in plain floats, as Graphite's do.

use crate::error::{Error, Result};

/// One value of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// Mean.
    Average,
    /// Mean, places without a value counting as 0.
    AvgZero,
    /// Median.
    Median,
    /// Sum.
    Sum,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// The first less all others.
    Diff,
    /// Standard deviation of the whole.
    Stddev,
    /// How many there are.
    Count,
    /// Largest less smallest.
    Range,
    /// Product; of places without a value there is none.
    Multiply,
    /// Last.
    Last,
}

/// All names.
pub const AGGREGATIONS: [(&str, Aggregation); 16] = [
    ("average", Aggregation::Average),
    ("avg", Aggregation::Average),
    ("avg_zero", Aggregation::AvgZero),
    ("count", Aggregation::Count),
    ("current", Aggregation::Last),
    ("diff", Aggregation::Diff),
    ("last", Aggregation::Last),
    ("max", Aggregation::Max),
    ("median", Aggregation::Median),
    ("min", Aggregation::Min),
    ("multiply", Aggregation::Multiply),
    ("range", Aggregation::Range),
    ("rangeOf", Aggregation::Range),
    ("stddev", Aggregation::Stddev),
    ("sum", Aggregation::Sum),
    ("total", Aggregation::Sum),
];

/// Orders floats as far as they have an order, those that are no numbers last.
pub(crate) fn order(a: f64, b: f64) -> std::cmp::Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Values in ascending order.
pub(crate) fn sorted(values: impl Iterator<Item = Option<f64>>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.flatten().collect();
    sorted.sort_by(|a, b| order(*a, *b));
    sorted
}

impl Aggregation {
    /// The one of a name.
    pub fn named(name: &str) -> Result<Self> {
        let found = AGGREGATIONS.iter().find(|(own, _)| *own == name).map(|(_, own)| *own);
        found.ok_or_else(|| Error::invalid(format!("Unsupported aggregation function: {name}")))
    }

    /// The one of a name that may end in `Series`, and the name without that.
    pub fn of_series(name: &str) -> Result<(Self, &str)> {
        let short = name.strip_suffix("Series").unwrap_or(name);
        Self::named(short).map(|found| (found, short)).map_err(|_| {
            Self::named(name)
                .err()
                .unwrap_or_else(|| Error::invalid(format!("Unsupported aggregation function: {name}")))
        })
    }

    /// The value of values.
    pub fn of(self, values: impl Iterator<Item = Option<f64>> + Clone) -> Option<f64> {
        let mut some = values.clone().flatten();
        let count = || values.clone().flatten().count();
        match self {
            Self::Count => Some(count() as f64),
            Self::Last => some.last(),
            Self::Min => some.reduce(|least, value| if value < least { value } else { least }),
            Self::Max => some.reduce(|most, value| if value > most { value } else { most }),
            Self::Range => Some(Self::Max.of(values.clone())? - Self::Min.of(values)?),
            Self::Sum => some.next().map(|first| some.fold(0.0 + first, |sum, value| sum + value)),
            Self::Diff => some.next().map(|first| some.fold(0.0 + first, |sum, value| sum - value)),
            Self::Average => Self::Sum.of(values.clone()).map(|sum| sum / count() as f64),
            Self::AvgZero => {
                let places = values.clone().count();
                (places > 0).then(|| some.fold(0.0, |sum, value| sum + value) / places as f64)
            }
            Self::Multiply => values.reduce(|product, value| Some(product? * value?)).flatten(),
            Self::Median => {
                let sorted = sorted(values);
                let middle = sorted.len() / 2;
                match sorted.len() % 2 {
                    _ if sorted.is_empty() => None,
                    0 => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
                    _ => Some(sorted[middle]),
                }
            }
            Self::Stddev => {
                let mean = Self::Average.of(values.clone())?;
                let squares = some.fold(0.0, |sum, value| sum + (value - mean) * (value - mean));
                Some((squares / count() as f64).sqrt())
            }
        }
    }
}

/// Whether enough of so many places have a value.
pub(crate) fn is_enough(present: usize, places: f64, share: f64) -> bool {
    present > 0 && places > 0.0 && present as f64 / places >= share
}

/// The percentile of values; without interpolation it is one of them.
pub(crate) fn percentile(
    values: impl Iterator<Item = Option<f64>>,
    n: f64,
    interpolate: bool,
) -> Result<Option<f64>> {
    let sorted = sorted(values);
    if sorted.is_empty() {
        return Ok(None);
    }
    let exact = n / 100.0 * (sorted.len() as f64 + 1.0);
    let mut rank = exact.trunc();
    let fraction = exact - rank;
    if !interpolate {
        rank += fraction.ceil();
    }
    let last = sorted.len() - 1;
    let at = |place: f64| {
        // Python counts places below zero from the end.
        let place = if place < 0.0 { place + sorted.len() as f64 } else { place };
        let found = (place >= 0.0).then(|| sorted.get(place as usize)).flatten();
        found
            .copied()
            .ok_or_else(|| Error::invalid(format!("{n} is no percentile of {} values", sorted.len())))
    };
    let found = match rank {
        0.0 => sorted[0],
        rank if rank - 1.0 == sorted.len() as f64 => sorted[last],
        rank => at(rank - 1.0)?,
    };
    if interpolate && rank != sorted.len() as f64 {
        return Ok(Some(found + fraction * (at(rank)? - found)));
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_minds_places_without_a_value() {
        let values = [Some(4.0), None, Some(1.0), Some(3.0)];
        for (name, expected) in [
            ("sum", Some(8.0)),
            ("avg", Some(8.0 / 3.0)),
            ("avg_zero", Some(2.0)),
            ("median", Some(3.0)),
            ("diff", Some(0.0)),
            ("count", Some(3.0)),
            ("range", Some(3.0)),
            ("multiply", None),
            ("last", Some(3.0)),
        ] {
            assert_eq!(Aggregation::named(name).unwrap().of(values.into_iter()), expected, "{name}");
        }
        for (_, aggregation) in AGGREGATIONS {
            let empty = aggregation.of([None::<f64>, None].into_iter());
            assert!(empty.is_none() || empty == Some(0.0));
            assert!(aggregation.of(std::iter::empty()).is_none_or(|value| value == 0.0));
        }
        assert!(Aggregation::of_series("nosuchSeries").is_err());
    }

    #[test]
    fn a_percentile_outside_of_the_values_is_refused() {
        let values = || [Some(1.0), Some(2.0), Some(3.0)].into_iter();
        assert_eq!(percentile(values(), 50.0, false).unwrap(), Some(2.0));
        assert_eq!(percentile(values(), 60.0, true).unwrap(), Some(2.4));
        assert!(percentile(values(), 500.0, false).is_err() && percentile(values(), f64::NAN, true).is_err());
    }
}
