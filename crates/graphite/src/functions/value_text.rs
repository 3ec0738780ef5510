//! Formats aggregated values for series names: integers have no decimal point.

use crate::aggregation::Aggregation;
use crate::number::repr;
use crate::series::Series;

/// An aggregate of a series in the form of Python's `str`.
pub(super) fn value_text(series: &Series, aggregation: Aggregation) -> String {
    let Some(value) = aggregation.of(series.points()) else { return "None".to_owned() };
    let keeps = match aggregation {
        Aggregation::Sum | Aggregation::Min | Aggregation::Max | Aggregation::Last | Aggregation::Diff => {
            true
        }
        Aggregation::Median => series.points().flatten().count() % 2 == 1,
        _ => false,
    };
    let whole = aggregation == Aggregation::Count || (keeps && series.values.is_whole());
    if whole { format!("{value:.0}") } else { repr(value) }
}
