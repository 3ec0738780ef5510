//! `hitcount`: converts rates per second to the number of hits in each interval.

use futures_util::FutureExt;

use sandur_base::job::spend;

use crate::attime::{Unit, parse_offset};
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "hitcount",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("intervalString", Kind::Interval),
        optional("alignToInterval", Kind::Boolean).or(Preset::Flag(false)),
    ],
    doc: "Converts rates per second to the number of hits in each interval.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let (mut list, text) = (again.call.series()?, again.call.text(1)?);
    let (aligned, interval) = (again.call.flag(2), parse_offset(&text)?);
    if interval <= 0 {
        return Err(Error::invalid(format!("an interval of {interval} seconds: it must be longer than 0")));
    }
    if aligned {
        let unit = match interval {
            86_400.. => Some(Unit::Days),
            3600.. => Some(Unit::Hours),
            60.. => Some(Unit::Minutes),
            _ => None,
        };
        let scope = again.call.scope.shifted(
            unit.and_then(|unit| super::dates::begin_of(again.call.scope.from, unit))
                .unwrap_or(again.call.scope.from),
            again.call.scope.until,
        );
        list = again.first_in(&scope).await?;
        for series in &mut list {
            let count = (series.end - series.start).div_euclid(interval);
            series.end = series.start + count * interval + interval;
        }
    }
    let flag = if aligned { ", true" } else { "" };
    again
        .compute(move || {
            let one = |mut series: Series| {
                let (start, values) = counted(&series, interval)?;
                series.tags.set("hitcount", &text);
                let name = format!("hitcount({}, \"{text}\"{flag})", series.name);
                Ok(Series { start, step: interval, ..series.derived(name, values) })
            };
            list.into_iter().map(one).collect()
        })
        .await
}

/// The start of the first interval, and the hits of each interval.
fn counted(series: &Series, interval: i64) -> Result<(i64, Column)> {
    let length = series.end.saturating_sub(series.start).max(0);
    let count = length / interval + i64::from(length % interval != 0);
    let start = series.end.saturating_sub(count * interval);
    let mut buckets = Column::filled(None, count as usize)?;
    let mut add = |bucket: i64, hits: f64| {
        if let Ok(place) = usize::try_from(bucket) {
            buckets.set(place, Some(buckets.get(place).unwrap_or(0.0) + hits));
        }
    };
    for (place, value) in series.points().enumerate() {
        let Some(value) = value else { continue };
        let from =
            series.start.saturating_add(series.step.saturating_mul(place as i64)).saturating_sub(start);
        let until = from.saturating_add(series.step);
        let (first, first_rest) = (from.div_euclid(interval), from.rem_euclid(interval));
        let (mut last, mut last_rest) = (until.div_euclid(interval), until.rem_euclid(interval));
        if last >= count {
            (last, last_rest) = (count - 1, interval);
        }
        if first == last {
            add(first, value * (last_rest - first_rest) as f64);
            continue;
        }
        add(first, value * (interval - first_rest) as f64);
        spend(usize::try_from(last - first).unwrap_or(0))?;
        (first + 1..last).for_each(|bucket| add(bucket, value * interval as f64));
        if last_rest > 0 {
            add(last, value * last_rest as f64);
        }
    }
    Ok((start, buckets))
}
