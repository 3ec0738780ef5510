//! `timeShift`: series of an earlier time.

use futures_util::FutureExt;

use crate::attime::parse_offset;
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "timeShift",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("timeShift", Kind::Interval),
        optional("resetEnd", Kind::Boolean).or(Preset::Flag(true)),
        optional("alignDst", Kind::Boolean).or(Preset::Flag(false)),
    ],
    doc: "Series of an earlier time.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let (list, text, keeps_end) = (again.call.series()?, again.call.text(1)?, again.call.flag(2));
    let text = if text.starts_with(|sign: char| sign.is_ascii_digit()) { format!("-{text}") } else { text };
    let delta = parse_offset(&text)?;
    let Some((start, end)) = list.first().map(|series| (series.start, series.end)) else {
        return Ok(Vec::new());
    };
    drop(list);
    let scope = &again.call.scope;
    let scope = scope.shifted(scope.from.later(delta), scope.until.later(delta));
    let mut shifted = again.first_in(&scope).await?;
    for series in &mut shifted {
        series.tags.set("timeShift", &text);
        series.name = format!("timeShift({}, \"{text}\")", series.name);
        series.end = if keeps_end { end } else { series.end - series.start + start };
        series.start = start;
    }
    Ok(shifted)
}
