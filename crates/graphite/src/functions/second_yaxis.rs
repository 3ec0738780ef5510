//! `secondYAxis`: draws series on the right-hand axis.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::{Drawing, Series};

pub(super) const FUNCTION: Function = Function {
    name: "secondYAxis",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Draws series on the right-hand axis.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    for series in &mut list {
        series.draw("secondYAxis", Drawing::On);
        series.tags.set("secondYAxis", 1);
        series.name = format!("secondYAxis({})", series.name);
    }
    Ok(list)
}
