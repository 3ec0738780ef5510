//! Values of series in names: integers print without a point.

use crate::aggregation::Aggregation;
use crate::number::repr;
use crate::series::Series;

/// An aggregation of a series as Python's `str` writes it.
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
