//! `timeStack`: shows series of several earlier times.

use futures_util::FutureExt;

use crate::attime::parse_offset;
use crate::error::{Error, Result};
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

/// The most times of a call; the series are fetched again for each.
const TIMES_MAX: i64 = 1_000;

pub(super) const FUNCTION: Function = Function {
    name: "timeStack",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("timeShiftUnit", Kind::Interval).or(Preset::Text("1d")),
        optional("timeShiftStart", Kind::Integer).or(Preset::Int(0)),
        optional("timeShiftEnd", Kind::Integer).or(Preset::Int(7)),
    ],
    doc: "Shows series of several earlier times.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (list, text) = (call.series()?, call.text(1)?);
    let (first, last) = (call.integer(2)?, call.integer(3)?);
    let text = if text.starts_with(|sign: char| sign.is_ascii_digit()) { format!("-{text}") } else { text };
    let delta = parse_offset(&text)?;
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
        let scope = &again.call.scope;
        let moved = delta.saturating_mul(shift);
        let scope = scope.shifted(scope.from.later(moved), scope.until.later(moved));
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
