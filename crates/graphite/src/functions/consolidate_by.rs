//! `consolidateBy`: sets the function that consolidates several values to one point.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::{Consolidation, Series};

pub(super) const FUNCTION: Function = Function {
    name: "consolidateBy",
    aliases: &[],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("consolidationFunc", Kind::Text)
            .of(&["average", "avg", "avg_zero", "first", "last", "max", "min", "sum"]),
    ],
    doc: "Sets the function that consolidates several values to one point.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, function) = (call.series()?, call.text(1)?);
    consolidate_by(list, &function)
}

/// Sets the consolidation function by name.
pub(super) fn consolidate_by(mut list: Vec<Series>, function: &str) -> Result<Vec<Series>> {
    let found = Consolidation::named(function)
        .ok_or_else(|| Error::invalid(format!("Invalid consolidation function: '{function}'")))?;
    for series in &mut list {
        series.consolidation = found;
        series.tags.set("consolidateBy", function);
        series.rename(format!("consolidateBy({},\"{function}\")", series.name));
    }
    Ok(list)
}
