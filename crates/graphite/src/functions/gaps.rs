//! Missing values: tests for them, fills them and removes periodic ones.

use std::sync::Arc;

use sandur_memory::job::spend;

use super::intervals::summarized;
use crate::call::Call;
use crate::column::Column;
use crate::combine::rows;
use crate::error::Result;
use crate::function::{Body, Function};
use crate::group::{Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, Parameter, Preset, SERIES, optional};
use crate::series::Series;

const BASE: Function = Function::of(Group::Transform).named(
    "compressPeriodicGaps",
    "Increases the step of series that have a value only at every n-th step to that interval.",
    compress_periodic_gaps,
);

const IS_NON_NULL: Function = Function {
    name: "isNonNull",
    doc: "Returns 1 where a series has a value, else 0.",
    body: Body::Series(is_non_null),
    ..BASE
};

/// A series list, and the longest gap that is filled.
const LIMITED: &[Parameter] = &[SERIES, optional("limit", Kind::IntOrInf).or(Preset::Float(f64::INFINITY))];

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named("interpolate", "Fills gaps of at most `limit` points by linear interpolation.", interpolate)
        .taking(LIMITED),
    IS_NON_NULL,
    Function { name: "isNotNull", origin: Origin::Carbonapi, ..IS_NON_NULL },
    BASE.named("keepLastValue", "Fills gaps of at most `limit` points with the last value.", keep_last_value)
        .taking(LIMITED),
    BASE.named(
        "transformNull",
        "Replaces missing values with a number; with a reference, only where a reference series has \
              a value.",
        transform_null,
    )
    .taking(&[
        SERIES,
        optional("default", Kind::Float).or(Preset::Int(0)),
        optional("referenceSeries", Kind::SeriesList),
    ]),
];

fn compress_periodic_gaps(mut call: Call) -> Result<Vec<Series>> {
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

fn interpolate(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, limit) = (call.series()?, call.float(1)?);
    for series in &mut list {
        series.rename(format!("interpolate({})", series.name));
        let values = &mut series.values;
        spend(values.len())?;
        let mut last: Option<(usize, f64)> = None;
        for place in 0..values.len() {
            let Some(value) = values.get(place) else { continue };
            if let Some((from, before)) = last {
                let missing = place - from - 1;
                if missing > 0 && missing as f64 <= limit {
                    for filled in from + 1..place {
                        let part = (filled - from) as f64 * (value - before) / (missing + 1) as f64;
                        values.set(filled, Some(before + part));
                    }
                }
            }
            last = Some((place, value));
        }
    }
    Ok(list)
}

fn is_non_null(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    for series in &mut list {
        series.tags.set("isNonNull", 1);
        series.rename(format!("isNonNull({})", series.name));
        series.values.map(|value| Some(f64::from(u8::from(value.is_some()))))?;
        series.values = std::mem::take(&mut series.values).of_integers();
    }
    Ok(list)
}

fn keep_last_value(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, limit) = (call.series()?, call.float(1)?);
    for series in &mut list {
        series.rename(format!("keepLastValue({})", series.name));
        let values = &mut series.values;
        spend(values.len())?;
        let mut last: Option<(usize, f64)> = None;
        for place in 0..=values.len() {
            let value = values.get(place);
            if value.is_none() && place < values.len() {
                continue;
            }
            if let Some((from, before)) = last
                && (place - from - 1) as f64 <= limit
            {
                (from + 1..place).for_each(|filled| values.set(filled, Some(before)));
            }
            last = value.map(|value| (place, value));
        }
    }
    Ok(list)
}

fn transform_null(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, default, has_reference) = (call.series()?, call.number(1)?, call.has(2));
    let reference = call.list(2)?;
    let value = default.value();
    let has_reference = has_reference && !reference.is_empty();
    let mut defaults = match has_reference {
        true => Some(rows(&reference, |row| Ok(row.iter().any(Option::is_some).then_some(value)))?),
        false => None,
    };
    if defaults.as_ref().is_some_and(Column::is_empty) {
        defaults = None;
    }
    let suffix = if has_reference { ",referenceSeries" } else { "" };
    for series in &mut list {
        series.tags.set("transformNull", default);
        if has_reference {
            series.tags.set("referenceSeries", 1);
        }
        series.rename(format!("transformNull({},{}{suffix})", series.name, general(value)));
        match &defaults {
            None => series.values.map(|own| own.or(Some(value)))?,
            Some(defaults) => {
                // Graphite appends the new values to the old ones, then drops the same number from the
                // front.
                let kept = series.values.len();
                let count = kept.max(defaults.len());
                let filled = |place| series.values.get(place).or(defaults.get(place));
                series.values = Column::collect(kept, (count - kept..count).map(filled))?;
            }
        }
    }
    Ok(list)
}
