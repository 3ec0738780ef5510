//! `areaBetween`: draws the area between two series.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::{Drawing, Series};

pub(super) const FUNCTION: Function = Function {
    name: "areaBetween",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Draws the area between two series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    area_between(call.series()?)
}

/// Implements `areaBetween` for a list of two series.
pub(super) fn area_between(mut list: Vec<Series>) -> Result<Vec<Series>> {
    let [lower, upper] = list.as_mut_slice() else {
        let count = list.len();
        return Err(Error::invalid(format!("areaBetween takes exactly 2 series, not {count}")));
    };
    lower.draw("stacked", Drawing::On);
    lower.draw("invisible", Drawing::On);
    upper.draw("stacked", Drawing::On);
    upper.tags.set("areaBetween", 1);
    lower.tags = upper.tags.clone();
    let name = format!("areaBetween({})", upper.path_expression);
    (lower.name, upper.name) = (name.clone(), name);
    Ok(list)
}
