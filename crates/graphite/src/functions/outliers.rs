//! Finds the series with the most outliers by Tukey's fences.

use sandur_memory::job::{reserve_exactly, spend};

use super::keys::take_first;
use crate::aggregation::sorted;
use crate::attime::parse_offset;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::Function;
use crate::group::Group;
use crate::number::Number;
use crate::parameter::{Argument, Kind, Preset, SERIES, optional, required};
use crate::series::Series;

const BASE: Function = Function::of(Group::Transform)
    .named(
        "tukeyAbove",
        "Keeps the `n` series with the most points at or above the upper Tukey fence: the third \
          quartile plus `basis` times the interquartile range.",
        |call| outliers(call, true),
    )
    .taking(&[
        SERIES,
        required("basis", Kind::Float),
        required("n", Kind::Integer),
        optional("interval", Kind::IntOrInterval).or(Preset::Int(0)),
    ])
    .of_carbonapi();

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named(
        "tukeyBelow",
        "Keeps the `n` series with the most points at or below the lower Tukey fence: the first \
              quartile minus `basis` times the interquartile range.",
        |call| outliers(call, false),
    ),
];

/// The series with the most points outside the fence on one side.
fn outliers(mut call: Call, is_above: bool) -> Result<Vec<Series>> {
    let (list, basis, n) = (call.series()?, call.float(1)?, call.integer(2)?);
    if basis <= 0.0 || n < 1 {
        return Err(Error::invalid("the basis must be above 0, and n at least 1"));
    }
    let interval = call.argument(3);
    let Some(first) = list.first() else { return Ok(Vec::new()) };
    let points = match interval {
        Argument::Text(text) => parse_offset(&text)? / first.step.max(1),
        Argument::Number(Number::Int(points)) => points,
        _ => return Err(Error::invalid("an interval is a number of points or a length of time")),
    };
    let places = places(first.values.len(), points);
    let all = || list.iter().flat_map(|series| series.values.part(places.clone()));
    let count = places.len().saturating_mul(list.len());
    let _held = reserve_exactly(8 * count as u64)?;
    spend(count.saturating_mul(8))?;
    let sorted = sorted(all());
    let quartile = |share: f64| sorted.get((share * sorted.len() as f64) as usize).copied();
    let (Some(low), Some(high)) = (quartile(0.25), quartile(0.75)) else { return Ok(Vec::new()) };
    let range = basis * (high - low);
    let is_outside = |value: &f64| if is_above { *value >= high + range } else { *value <= low - range };
    let mut counted = Vec::new();
    for (place, series) in list.iter().enumerate() {
        let count = series.values.part(places.clone()).flatten().filter(is_outside).count();
        if count > 0 {
            counted.push((count, place));
        }
    }
    // Among series with equal counts the first ones are kept, in reverse order.
    counted.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut kept = take_first(counted, n);
    kept.sort_by(|a, b| b.cmp(a));
    let mut list: Vec<Option<Series>> = list.into_iter().map(Some).collect();
    Ok(kept.into_iter().filter_map(|(_, place)| list.get_mut(place).and_then(Option::take)).collect())
}

/// The last `points` places; if negative, all places except the last ones; all places if there are fewer.
fn places(count: usize, points: i64) -> std::ops::Range<usize> {
    let size = usize::try_from(points.unsigned_abs()).unwrap_or(usize::MAX);
    match () {
        () if points == 0 || size >= count => 0..count,
        () if points < 0 => 0..count - size,
        () => count - size..count,
    }
}
