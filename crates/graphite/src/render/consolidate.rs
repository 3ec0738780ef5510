//! Consolidates series to a maximum number of points.
//!
//! Points begin at multiples of their length, so that an answer changes only at its ends from one request
//! to the next. Values before the first complete point are dropped.

use crate::error::{Error, Result};
use crate::series::Series;

/// Consolidates all series to at most `most` points over their common time range.
pub(super) fn consolidate(list: &mut [Series], most: u64) -> Result<()> {
    if list.iter().all(|series| series.values.is_empty()) {
        return Ok(());
    }
    let start = list.iter().map(|series| series.start).min().unwrap_or(0);
    let end = list.iter().map(|series| series.end).max().unwrap_or(0);
    for series in list {
        if most == 1 {
            series.consolidate(series.values.len());
            continue;
        }
        if series.step <= 0 {
            return Err(Error::invalid(format!("{} has no step", series.name)));
        }
        let points = (end - start) as f64 / series.step as f64;
        if most as f64 >= points {
            continue;
        }
        if most == 0 {
            return Err(Error::invalid("maxDataPoints must be at least 1"));
        }
        let many = (points / most as f64).ceil();
        let seconds = (many as i64).saturating_mul(series.step).max(1);
        let nudge = seconds + series.start.rem_euclid(series.step) - series.start.rem_euclid(seconds);
        series.start = series.start.saturating_add(nudge);
        let lost = usize::try_from(nudge / series.step).unwrap_or(0).saturating_sub(1);
        if lost > series.values.len() {
            return Err(Error::invalid(format!("{} has too few values for one point", series.name)));
        }
        series.values.drop_first(lost);
        series.consolidate(many as usize);
    }
    Ok(())
}
