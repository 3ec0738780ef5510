//! `summarize`: aggregates values over intervals, aligned to multiples of the interval or to the start of
//! the request.

use super::summaries::summarized;
use crate::attime::parse_offset;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "summarize",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("intervalString", Kind::Interval),
        optional("func", Kind::AggFunc).or(Preset::Text("sum")),
        optional("alignToFrom", Kind::Boolean).or(Preset::Flag(false)),
    ],
    doc: "Aggregates values over intervals, aligned to multiples of the interval or to the start of \
          the request.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, text, function, from) = (call.series()?, call.text(1)?, call.text(2)?, call.flag(3));
    let interval = parse_offset(&text)?;
    if interval <= 0 {
        return Err(Error::invalid(format!("an interval of {interval} seconds: it must be longer than 0")));
    }
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
