//! Functions that aggregate many values to one: the values of a series, or those of several series at one
//! time.
//!
//! Sums run from left to right in plain floats, as in Graphite.

use crate::error::{Error, Result};

/// An aggregation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// The mean.
    Average,
    /// The mean, with 0 for missing values.
    AvgZero,
    /// The median.
    Median,
    /// The sum.
    Sum,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// The first value minus all others.
    Diff,
    /// The population standard deviation.
    Stddev,
    /// The number of values.
    Count,
    /// The maximum minus the minimum.
    Range,
    /// The product; none if a value is missing.
    Multiply,
    /// The last value.
    Last,
}

/// All names of aggregation functions.
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

/// Compares floats; NaN comes last.
pub(crate) fn order(a: f64, b: f64) -> std::cmp::Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The values in ascending order.
pub(crate) fn sorted(values: impl Iterator<Item = Option<f64>>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.flatten().collect();
    sorted.sort_by(|a, b| order(*a, *b));
    sorted
}

impl Aggregation {
    /// The aggregation function with this name.
    pub fn named(name: &str) -> Result<Self> {
        let found = AGGREGATIONS.iter().find(|(own, _)| *own == name).map(|(_, own)| *own);
        found.ok_or_else(|| Error::invalid(format!("Unsupported aggregation function: {name}")))
    }

    /// The aggregation function of a name that may end in `Series`, and the name without that suffix.
    pub fn of_series(name: &str) -> Result<(Self, &str)> {
        let short = name.strip_suffix("Series").unwrap_or(name);
        Self::named(short).map(|found| (found, short)).map_err(|_| {
            Self::named(name)
                .err()
                .unwrap_or_else(|| Error::invalid(format!("Unsupported aggregation function: {name}")))
        })
    }

    /// Aggregates values; `None` if there is no result.
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

/// Whether the fraction of places with a value is at least `share`, and not zero.
pub(crate) fn is_enough(present: usize, places: f64, share: f64) -> bool {
    present > 0 && places > 0.0 && present as f64 / places >= share
}

/// A percentile of values; without interpolation it is one of the values.
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
        // Python counts negative indexes from the end.
        let place = if place < 0.0 { place + sorted.len() as f64 } else { place };
        let found = (place >= 0.0).then(|| sorted.get(place as usize)).flatten();
        found.copied().ok_or_else(|| {
            Error::invalid(format!("percentile {n} does not exist for {} values", sorted.len()))
        })
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
    fn aggregations_handle_missing_values() {
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
