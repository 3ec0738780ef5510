//! Aggregates values over longer intervals, which may begin with a unit of the calendar.

use futures_util::FutureExt;
use jiff::SignedDuration;
use sandur_memory::job::spend;

use crate::aggregation::{Aggregation, is_enough};
use crate::attime::{Unit, parse_offset};
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::group::Group;
use crate::parameter::{Argument, Kind, Parameter, Preset, SERIES, optional, required};
use crate::series::Series;
use crate::zone::Moment;

const BASE: Function = Function::of(Group::Transform)
    .named(
        "summarize",
        "Aggregates values over intervals, aligned to multiples of the interval or to the start of \
          the request.",
        summarize,
    )
    .taking(&[SERIES, INTERVAL, FUNCTION, optional("alignToFrom", Kind::Boolean).or(Preset::Flag(false))]);

const INTERVAL: Parameter = required("intervalString", Kind::Interval);
const FUNCTION: Parameter = optional("func", Kind::AggFunc).or(Preset::Text("sum"));

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "hitcount",
        parameters: &[SERIES, INTERVAL, optional("alignToInterval", Kind::Boolean).or(Preset::Flag(false))],
        doc: "Converts rates per second to the number of hits in each interval.",
        body: Body::EvaluatingCall(|again| hitcount(again).boxed()),
        ..BASE
    },
    Function {
        name: "smartSummarize",
        parameters: &[
            SERIES,
            INTERVAL,
            FUNCTION,
            optional("alignTo", Kind::Text)
                .of(&["days", "hours", "minutes", "months", "seconds", "weeks", "years"]),
        ],
        doc: "Aggregates values over intervals that begin with the requested time, or with a calendar \
              unit such as a day or hour.",
        body: Body::EvaluatingCall(|again| smart_summarize(again).boxed()),
        ..BASE
    },
];

/// The seconds of an interval, which must be longer than 0.
pub(super) fn positive_interval(text: &str) -> Result<i64> {
    match parse_offset(text)? {
        interval @ 1.. => Ok(interval),
        interval => Err(too_short(interval)),
    }
}

fn too_short(interval: i64) -> Error {
    Error::invalid(format!("an interval of {interval} seconds: it must be longer than 0"))
}

fn summarize(mut call: Call) -> Result<Vec<Series>> {
    let (list, text, function, from) = (call.series()?, call.text(1)?, call.text(2)?, call.flag(3));
    let interval = positive_interval(&text)?;
    let flag = if from { ", true" } else { "" };
    let one = |mut series: Series| {
        let (mut start, mut end) = (series.start, series.end);
        if !from {
            start -= start.rem_euclid(interval);
            end = end - end.rem_euclid(interval) + interval;
        }
        let (values, aligned_end) = summarized(&series, &function, interval, (start, end))?;
        end = if from { aligned_end } else { end };
        series.tags.set("summarize", &text);
        series.tags.set("summarizeFunction", &function);
        let name = format!("summarize({}, \"{text}\", \"{function}\"{flag})", series.name);
        Ok(Series { start, end, step: interval, ..series.derived(name, values) })
    };
    list.into_iter().map(one).collect()
}

async fn smart_summarize(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (mut list, text, function, unit) = (call.series()?, call.text(1)?, call.text(2)?, call.argument(3));
    let interval = parse_offset(&text)?;
    if let Argument::Text(unit) = unit {
        let scope = &again.call.scope;
        let wrong = || Error::invalid(format!("smartSummarize cannot align to '{unit}'"));
        let begin = aligned_to(scope.from, &unit).ok_or_else(wrong)?;
        let scope = scope.shifted(begin, scope.until);
        list = again.first_in(&scope).await?;
    }
    let one = move |mut series: Series| {
        let times = (series.start, series.end);
        let (values, end) = summarized(&series, &function, interval, times)?;
        series.tags.set("smartSummarize", &text);
        series.tags.set("smartSummarizeFunction", &function);
        let name = format!("smartSummarize({}, \"{text}\", \"{function}\")", series.name);
        Ok(Series { end, step: interval, ..series.derived(name, values) })
    };
    again.compute_each(list, one).await
}

/// One value for each interval from `start` to the end, exclusive, and the end of the last interval.
pub(super) fn summarized(
    series: &Series,
    function: &str,
    interval: i64,
    (start, end): (i64, i64),
) -> Result<(Column, i64)> {
    let aggregation = Aggregation::named(function)?;
    if interval <= 0 || series.step <= 0 {
        return Err(too_short(interval));
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

async fn hitcount(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let (mut list, text) = (again.call.series()?, again.call.text(1)?);
    let (aligned, interval) = (again.call.flag(2), positive_interval(&text)?);
    if aligned {
        let unit = match interval {
            86_400.. => Some(Unit::Days),
            3600.. => Some(Unit::Hours),
            60.. => Some(Unit::Minutes),
            _ => None,
        };
        let scope = &again.call.scope;
        let begin = unit.and_then(|unit| begin_of(scope.from, unit)).unwrap_or(scope.from);
        let scope = scope.shifted(begin, scope.until);
        list = again.first_in(&scope).await?;
        for series in &mut list {
            let count = (series.end - series.start).div_euclid(interval);
            series.end = series.start + count * interval + interval;
        }
    }
    let flag = if aligned { ", true" } else { "" };
    let one = move |mut series: Series| {
        let (start, values) = counted(&series, interval)?;
        series.tags.set("hitcount", &text);
        let name = format!("hitcount({}, \"{text}\"{flag})", series.name);
        Ok(Series { start, step: interval, ..series.derived(name, values) })
    };
    again.compute_each(list, one).await
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

/// The start of the unit that includes a moment.
fn begin_of(moment: Moment, unit: Unit) -> Option<Moment> {
    let local = moment.civil()?;
    let midnight = local.date().at(0, 0, 0, 0);
    let begin = match unit {
        Unit::Years => jiff::civil::date(local.year(), 1, 1).at(0, 0, 0, 0),
        Unit::Months => local.date().first_of_month().at(0, 0, 0, 0),
        Unit::Weeks | Unit::Days => midnight,
        Unit::Hours => local.date().at(local.hour(), 0, 0, 0),
        Unit::Minutes => local.date().at(local.hour(), local.minute(), 0, 0),
        Unit::Seconds => local,
    };
    Some(moment.at_civil(begin))
}

/// The start of the unit with this name. The name of weeks may have the number of their first day, 1 for
/// Monday.
fn aligned_to(moment: Moment, name: &str) -> Option<Moment> {
    let unit = Unit::parse(name)?;
    let begin = begin_of(moment, unit)?;
    if unit != Unit::Weeks {
        return Some(begin);
    }
    let first = match name.chars().last()? {
        letter if letter.is_alphabetic() => 1,
        digit => i64::from(digit.to_digit(10)?),
    };
    let local = begin.civil()?;
    let days = i64::from(local.weekday().to_monday_one_offset()) - first;
    let days = if days < 0 { days + 7 } else { days };
    Some(begin.at_civil(local.checked_sub(SignedDuration::from_hours(24 * days)).ok()?))
}
