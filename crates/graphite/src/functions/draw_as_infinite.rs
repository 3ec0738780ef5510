//! `drawAsInfinite`: draws each value above 0 as a vertical line over the full height.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::{Drawing, Series};

pub(super) const FUNCTION: Function = Function {
    name: "drawAsInfinite",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Draws each value above 0 as a vertical line over the full height.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    for series in &mut list {
        series.draw("drawAsInfinite", Drawing::On);
        series.tags.set("drawAsInfinite", 1);
        series.name = format!("drawAsInfinite({})", series.name);
    }
    Ok(list)
}
