//! `scaleAfterTimestamp`: multiplies each point from a timestamp on by a constant.

use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "scaleAfterTimestamp",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("factor", Kind::Float),
        required("timestamp", Kind::Integer),
    ],
    doc: "Multiplies each point from a timestamp on by a constant.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, factor, time) = (call.series()?, call.float(1)?, call.integer(2)?);
    let one = |mut series: Series| {
        let (mut at, step) = (series.start, series.step);
        let scaled = series.points().map(|value| {
            let is_after = at >= time;
            at = at.saturating_add(step);
            value.map(|value| if is_after { value * factor } else { value })
        });
        let values = Column::collect(series.values.len(), scaled)?;
        series.tags.set("scale", factor);
        let name = format!("scale({},{factor},{time})", series.name);
        Ok(series.derived(name, values))
    };
    list.into_iter().map(one).collect()
}
