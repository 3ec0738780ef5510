//! `timeSlice`: removes the values outside a time range.

use crate::attime::parse_time;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;
use crate::zone::Zone;

pub(super) const FUNCTION: Function = Function {
    name: "timeSlice",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("startSliceAt", Kind::Date),
        optional("endSliceAt", Kind::Date).or(Preset::Text("now")),
    ],
    doc: "Removes the values outside a time range.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
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
