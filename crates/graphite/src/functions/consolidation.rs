//! Sets how the values of a series are consolidated to points.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function};
use crate::group::Group;
use crate::parameter::{Kind, SERIES, required};
use crate::series::{Consolidation, Series};

const BASE: Function = Function::of(Group::Special)
    .named("consolidateBy", "Sets the function that consolidates several values to one point.", consolidate)
    .taking(&[
        SERIES,
        required("consolidationFunc", Kind::Text)
            .of(&["average", "avg", "avg_zero", "first", "last", "max", "min", "sum"]),
    ]);

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named("cumulative", "Sets the consolidation function to the sum.", |mut call| {
        consolidate_by(call.series()?, "sum")
    })
    .taking(&[SERIES]),
    Function {
        name: "setXFilesFactor",
        aliases: &["xFilesFactor"],
        parameters: &[SERIES, required("xFilesFactor", Kind::Float)],
        doc: "Sets the fraction of values that a consolidated point requires, for these series and for \
              functions evaluated later.",
        body: Body::Series(set_x_files_factor),
        ..BASE
    },
];

fn consolidate(mut call: Call) -> Result<Vec<Series>> {
    let (list, function) = (call.series()?, call.text(1)?);
    consolidate_by(list, &function)
}

/// Sets the consolidation function by name.
fn consolidate_by(mut list: Vec<Series>, function: &str) -> Result<Vec<Series>> {
    let found = Consolidation::named(function)
        .ok_or_else(|| Error::invalid(format!("Invalid consolidation function: '{function}'")))?;
    for series in &mut list {
        series.consolidation = found;
        series.tags.set("consolidateBy", function);
        series.rename(format!("consolidateBy({},\"{function}\")", series.name));
    }
    Ok(list)
}

fn set_x_files_factor(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, share) = (call.series()?, call.number(1)?);
    call.scope.set_x_files_factor(share.value());
    for series in &mut list {
        series.x_files_factor = share.value();
        series.tags.set("xFilesFactor", share);
    }
    Ok(list)
}
