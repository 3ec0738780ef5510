//! `compressPeriodicGaps`: increases the step of series that have a value only at every n-th step to that
//! interval.

use std::sync::Arc;

use super::summaries::summarized;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "compressPeriodicGaps",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Increases the step of series that have a value only at every n-th step to that interval.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let one = |mut series: Series| {
        series.rename(format!("compressPeriodicGaps({})", series.name));
        compress(series)
    };
    call.series()?.into_iter().map(one).collect()
}

/// The series with a longer step, or unchanged if its values are not periodic.
fn compress(series: Series) -> Result<Series> {
    let is_set = |place: usize| series.values.get(place).is_some_and(|value| value != 0.0);
    let mut set = (0..series.values.len()).filter(|place| is_set(*place));
    let (Some(first), Some(second)) = (set.next(), set.next()) else { return Ok(series) };
    let guess = second - first;
    let third = second + guess;
    let is_alone = guess > 1
        && third + 2 <= series.values.len()
        && is_set(third)
        && series.values.get(third - 1).is_none()
        && series.values.get(third + 1).is_none();
    if !is_alone {
        return Ok(series);
    }
    let interval = series.step.saturating_mul(guess as i64);
    let start = series.start.saturating_add(series.step.saturating_mul(first as i64));
    let (values, _) = summarized(&series, "last", interval, (start, series.end))?;
    let end = start + interval * (values.len() as i64 - 1);
    let (path, name) = (Arc::clone(&series.path_expression), series.name.clone());
    let compressed = series.derived(name, values);
    Ok(Series { path_expression: path, start, end, step: interval, ..compressed })
}
