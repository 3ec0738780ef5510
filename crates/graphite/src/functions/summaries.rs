//! Aggregates values over longer steps.

use crate::aggregation::{Aggregation, is_enough};
use crate::column::Column;
use crate::error::{Error, Result};
use crate::series::Series;
use sandur_base::job::spend;

/// One value for each interval from `start` to the end, exclusive, and the end of the last interval.
pub(super) fn summarized(
    series: &Series,
    function: &str,
    interval: i64,
    (start, end): (i64, i64),
) -> Result<(Column, i64)> {
    let aggregation = Aggregation::named(function)?;
    if interval <= 0 || series.step <= 0 {
        return Err(Error::invalid(format!("an interval of {interval} seconds: it must be longer than 0")));
    }
    let length = end.saturating_sub(start).max(0);
    let count = (length / interval + i64::from(length % interval != 0)) as usize;
    let places = (series.end.saturating_sub(series.start).max(0) as u64).div_ceil(series.step as u64);
    let points = usize::try_from(places).unwrap_or(usize::MAX).min(series.values.len());
    let time = |place: usize| series.start.saturating_add(series.step.saturating_mul(place as i64));
    let mut values = Column::with_room(count)?;
    let (mut place, mut at) = (0, start);
    for _ in 0..count {
        let (mut first, mut present) = (place, 0);
        while place < points && time(place) < at.saturating_add(interval) {
            if time(place) <= at {
                first = place;
            }
            present += usize::from(time(place) >= at && series.values.get(place).is_some());
            place += 1;
        }
        spend(place - first)?;
        let enough = is_enough(present, interval as f64 / series.step as f64, series.x_files_factor);
        values.push(enough.then(|| aggregation.of(series.values.part(first..place))).flatten());
        at = at.saturating_add(interval);
    }
    Ok((values, at))
}
