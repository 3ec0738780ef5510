//! `smartSummarize`: aggregates values over intervals that begin with the requested time, or with a
//! calendar unit such as a day or hour.

use futures_util::FutureExt;

use super::summaries::summarized;
use crate::attime::parse_offset;
use crate::error::{Error, Result};
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Argument, Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "smartSummarize",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("intervalString", Kind::Interval),
        optional("func", Kind::AggFunc).or(Preset::Text("sum")),
        optional("alignTo", Kind::Text)
            .of(&["days", "hours", "minutes", "months", "seconds", "weeks", "years"]),
    ],
    doc: "Aggregates values over intervals that begin with the requested time, or with a calendar \
          unit such as a day or hour.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (mut list, text, function, unit) = (call.series()?, call.text(1)?, call.text(2)?, call.argument(3));
    let interval = parse_offset(&text)?;
    if let Argument::Text(unit) = unit {
        let scope = &again.call.scope;
        let wrong = || Error::invalid(format!("smartSummarize cannot align to '{unit}'"));
        let begin = super::dates::aligned_to(scope.from, &unit).ok_or_else(wrong)?;
        let scope = scope.shifted(begin, scope.until);
        list = again.first_in(&scope).await?;
    }
    again
        .compute(move || {
            let one = |mut series: Series| {
                let times = (series.start, series.end);
                let (values, end) = summarized(&series, &function, interval, times)?;
                series.tags.set("smartSummarize", &text);
                series.tags.set("smartSummarizeFunction", &function);
                let name = format!("smartSummarize({}, \"{text}\", \"{function}\")", series.name);
                Ok(Series { end, step: interval, ..series.derived(name, values) })
            };
            list.into_iter().map(one).collect()
        })
        .await
}
