//! Shows series of other times, and shifts or cuts their values in time.

use futures_util::FutureExt;
use sandur_memory::job::spend;

use super::series_of::replace_values;
use crate::attime::{parse_offset, parse_time};
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::group::Group;
use crate::parameter::{Kind, Preset, SERIES, optional, required};
use crate::pattern::python_regex;
use crate::scope::Scope;
use crate::series::Series;
use crate::zone::Zone;

const BASE: Function = Function {
    name: "timeShift",
    parameters: &[
        SERIES,
        required("timeShift", Kind::Interval),
        optional("resetEnd", Kind::Boolean).or(Preset::Flag(true)),
        optional("alignDst", Kind::Boolean).or(Preset::Flag(false)).or_named("alignDST"),
    ],
    doc: "Shows series of an earlier time. With `alignDst`, a shift between summer time and standard \
          time is corrected by an hour in the time zone of the request (`tz`).",
    body: Body::EvaluatingCall(|again| time_shift(again).boxed()),
    ..Function::of(Group::Transform)
};

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named("delay", "Shifts values by a number of steps, to later ones if it is positive.", delay)
        .taking(&[SERIES, required("steps", Kind::Integer)]),
    BASE.named(
        "timeShiftByMetric",
        "Shifts series by version, so that the last marks of all versions coincide; a node of the \
              path is the version.",
        time_shift_by_metric,
    )
    .taking(&[SERIES, required("markSource", Kind::SeriesList), required("versionRankIndex", Kind::Integer)])
    .of_carbonapi(),
    BASE.named("timeSlice", "Removes the values outside a time range.", time_slice).taking(&[
        SERIES,
        required("startSliceAt", Kind::Date),
        optional("endSliceAt", Kind::Date).or(Preset::Text("now")),
    ]),
    Function {
        name: "timeStack",
        parameters: &[
            SERIES,
            optional("timeShiftUnit", Kind::Interval).or(Preset::Text("1d")),
            optional("timeShiftStart", Kind::Integer).or(Preset::Int(0)),
            optional("timeShiftEnd", Kind::Integer).or(Preset::Int(7)),
        ],
        doc: "Shows series of several earlier times.",
        body: Body::EvaluatingCall(|again| time_stack(again).boxed()),
        ..BASE
    },
];

/// The seconds of an offset; one without a sign is to earlier times. Also returns its text with the sign.
pub(super) fn backwards(text: String) -> Result<(String, i64)> {
    let text = if text.starts_with(|sign: char| sign.is_ascii_digit()) { format!("-{text}") } else { text };
    let seconds = parse_offset(&text)?;
    Ok((text, seconds))
}

/// The shift of clocks in summer time, in seconds.
const SUMMER_SECONDS: i64 = 3600;

async fn time_shift(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let (list, text, keeps_end) = (again.call.series()?, again.call.text(1)?, again.call.flag(2));
    let (text, delta) = backwards(text)?;
    let Some((start, end)) = list.first().map(|series| (series.start, series.end)) else {
        return Ok(Vec::new());
    };
    drop(list);
    let mut scope = shifted(&again.call.scope, delta);
    if again.call.flag(3) {
        scope = shifted(&scope, summer_correction(&again.call.scope, &scope));
    }
    let mut shifted = again.first_in(&scope).await?;
    for series in &mut shifted {
        series.tags.set("timeShift", &text);
        series.name = format!("timeShift({}, \"{text}\")", series.name);
        series.end = if keeps_end { end } else { series.end - series.start + start };
        series.start = start;
    }
    Ok(shifted)
}

fn shifted(scope: &Scope, seconds: i64) -> Scope {
    scope.shifted(scope.from.later(seconds), scope.until.later(seconds))
}

/// The seconds by which a shifted window must be corrected so that it covers the same local times as the
/// request: an hour if exactly one of them is completely in summer time and the other completely outside.
fn summer_correction(request: &Scope, shifted: &Scope) -> i64 {
    let is_summer = |scope: &Scope| {
        let [from, until] = [scope.from, scope.until].map(|time| scope.zone.moment(time.epoch).is_summer);
        (from == until).then_some(from)
    };
    match (is_summer(request), is_summer(shifted)) {
        (Some(true), Some(false)) => SUMMER_SECONDS,
        (Some(false), Some(true)) => -SUMMER_SECONDS,
        _ => 0,
    }
}

/// The most times of a call; the series are fetched again for each.
const TIMES_MAX: i64 = 1_000;

async fn time_stack(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (list, text) = (call.series()?, call.text(1)?);
    let (first, last) = (call.integer(2)?, call.integer(3)?);
    let (text, delta) = backwards(text)?;
    if last.saturating_sub(first) > TIMES_MAX {
        return Err(Error::Limit(format!(
            "timeStack would evaluate {} times; {TIMES_MAX} are allowed in one call",
            last.saturating_sub(first)
        )));
    }
    let Some((start, end)) = list.first().map(|series| (series.start, series.end)) else {
        return Ok(Vec::new());
    };
    drop(list);
    let mut results = Vec::new();
    for shift in first..last {
        let scope = shifted(&again.call.scope, delta.saturating_mul(shift));
        for mut series in again.first_in(&scope).await? {
            series.tags.set("timeShiftUnit", &text);
            series.tags.set("timeShift", shift);
            series.rename(format!("timeShift({}, {text}, {shift})", series.name));
            (series.start, series.end) = (start, end);
            results.push(series);
        }
    }
    Ok(results)
}

/// The last mark of a version, such as `65_4`.
struct Mark {
    version: String,
    number: (u64, u64),
    place: usize,
}

fn time_shift_by_metric(mut call: Call) -> Result<Vec<Series>> {
    let (list, marks, rank) = (call.list(0)?, call.list(1)?, call.integer(2)?);
    for (what, list) in [("metrics", &list), ("marks", &marks)] {
        if list.len() < 2 {
            let count = list.len();
            let message = format!("bad data: need at least 2 {what} data sets to process, got {count}");
            return Err(Error::invalid(message));
        }
    }
    let (count, step) = list.first().map_or((0, 0), |series| (series.values.len(), series.step));
    if let Some(other) = list.iter().chain(&marks).find(|series| series.values.len() != count) {
        let message = format!("bad data: length of Values for series {} differs from others", other.name);
        return Err(Error::invalid(message));
    }
    let marks = latest(&marks)?;
    let Some(newest) = marks.first().map(|mark| mark.place) else { return Ok(Vec::new()) };
    let mut results = Vec::new();
    for mut series in list {
        spend(marks.len())?;
        let name = series.tags.get("name").unwrap_or_default();
        let node = usize::try_from(rank).ok().and_then(|rank| name.split('.').nth(rank));
        let Some(node) = node else { continue };
        let exact = marks.iter().find(|mark| mark.version == node);
        let Some(mark) = exact.or_else(|| marks.iter().find(|mark| mark.version.starts_with(node))) else {
            continue;
        };
        let moved = (newest as i64 - mark.place as i64).saturating_mul(step);
        series.rename(format!("timeShiftByMetric({})", series.name));
        series.start = series.start.saturating_add(moved);
        series.end = series.end.saturating_add(moved);
        results.push(series);
    }
    Ok(results)
}

/// For each first number of versions, the last mark of the highest version; the newest version first.
fn latest(series: &[Series]) -> Result<Vec<Mark>> {
    let version = python_regex(r"(\d+)_(\d+)")?;
    let mut marks = Vec::new();
    for series in series {
        spend(series.values.len())?;
        let name = series.tags.get("name").unwrap_or_default();
        let node = name.rsplit('.').next().unwrap_or_default();
        let number = version.captures(node).and_then(|found| {
            Some((found.get(1)?.as_str().parse().ok()?, found.get(2)?.as_str().parse().ok()?))
        });
        let place = (0..series.values.len()).rev().find(|place| series.values.get(*place).is_some());
        if let (Some(number), Some(place)) = (number, place) {
            marks.push(Mark { version: node.to_owned(), number, place });
        }
    }
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.number));
    marks.dedup_by(|next, kept| next.number.0 == kept.number.0);
    match marks.len() {
        0 | 1 => {
            let count = marks.len();
            Err(Error::invalid(format!("bad data: could not find 2 marks, only {count} found")))
        }
        _ => Ok(marks),
    }
}

fn time_slice(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, begin, end) = (call.series()?, call.text(1)?, call.text(2)?);
    let begin = parse_time(&begin, &Zone::utc(), call.scope.now)?.epoch;
    let end = parse_time(&end, &Zone::utc(), call.scope.now)?.epoch;
    for series in &mut list {
        series.tags.set("timeSliceStart", begin);
        series.tags.set("timeSliceEnd", end);
        series.name = format!("timeSlice({}, {begin}, {end})", series.name);
        let (mut time, step) = (call.scope.from.wall(), series.step);
        series.values.map(|value| {
            let kept = value.filter(|_| (begin..=end).contains(&time));
            time = time.saturating_add(step);
            kept
        })?;
    }
    Ok(list)
}

fn delay(mut call: Call) -> Result<Vec<Series>> {
    let (list, steps) = (call.series()?, call.integer(1)?);
    replace_values(list, |series| {
        series.tags.set("delay", steps);
        let values = &series.values;
        let length = values.len();
        let moved = usize::try_from(steps.unsigned_abs()).unwrap_or(usize::MAX).min(length);
        let missing = std::iter::repeat_n(None, moved);
        let delayed = match steps {
            0 => Column::default(),
            ..0 => Column::collect(length, values.part(moved..length).chain(missing))?,
            _ => Column::collect(length, missing.chain(values.part(0..length - moved)))?,
        };
        Ok((format!("delay({},{steps})", series.name), delayed))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::TenantId;
    use sandur_query::QueryContext;
    use sandur_runtime::Env;

    use crate::error::Result;
    use crate::evaluate::Evaluator;
    use crate::scope::Scope;
    use crate::source::testing::Made;
    use crate::zone::Zone;

    /// 2021-07-01, 08:00 in Berlin.
    const SUMMER: i64 = 1_625_119_200;
    /// 2020-12-31, 08:00 in Berlin.
    const WINTER: i64 = 1_609_398_000;
    /// 2021-03-28, an hour before summer time begins in Berlin.
    const LEAP: i64 = 1_616_889_600;

    /// The seconds by which the values of a shifted series of timestamps differ from those of an unshifted
    /// one.
    fn moved(from: i64, zone: &str, arguments: &str) -> Result<f64> {
        let (tenant, budget) = (TenantId::default_tenant(), MemoryBudget::root("query", 1 << 20));
        let context = QueryContext::new(Env::simulated(1, 0), tenant, budget, Duration::from_secs(3_600));
        let zone = Zone::named(zone).unwrap();
        let (from, until) = (zone.moment(from), zone.moment(from + 7_200));
        let scope = Scope::new(from, until, until.epoch, zone, 0.0);
        let source = Made::default();
        let evaluator = Evaluator::new(&source, &context, &[]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let first = |target: &str| -> Result<f64> {
            let list = runtime.block_on(evaluator.series(target, &scope))?;
            Ok(list[0].points().flatten().next().unwrap())
        };
        Ok(first(&format!("timeShift(time('t', 3600), {arguments})"))? - first("time('t', 3600)")?)
    }

    /// The expected numbers are from graphite-web 1.1.10 with `TIME_ZONE` set to the zone of the request.
    #[test]
    fn align_dst_keeps_the_local_hour_across_the_change_of_clocks() {
        let weeks = 26.0 * 7.0 * 86_400.0;
        let berlin = "Europe/Berlin";
        for (from, zone, arguments, expected) in [
            (SUMMER, berlin, "'26w', true, true", 3_600.0 - weeks),
            (SUMMER, berlin, "'26w', alignDst=true", 3_600.0 - weeks),
            (SUMMER, berlin, "'26w', alignDST=true", 3_600.0 - weeks),
            (SUMMER, berlin, "'26w'", -weeks),
            (SUMMER, berlin, "'26w', true, false", -weeks),
            (SUMMER, "UTC", "'26w', true, true", -weeks),
            (WINTER, berlin, "'26w', true, true", -3_600.0 - weeks),
            (WINTER, berlin, "'+26w', true, true", weeks - 3_600.0),
            (SUMMER, berlin, "'1w', true, true", -7.0 * 86_400.0),
            (LEAP, berlin, "'30d', true, true", -30.0 * 86_400.0),
        ] {
            assert_eq!(moved(from, zone, arguments).unwrap(), expected, "{from} {zone} {arguments}");
        }
        assert!(moved(SUMMER, berlin, "'26w', alignDST=true, alignDst=true").is_err());
    }
}
