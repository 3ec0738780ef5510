//! `setXFilesFactor`: sets the fraction of values that a consolidated point requires, for these series
//! and for functions evaluated later.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "setXFilesFactor",
    aliases: &["xFilesFactor"],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("xFilesFactor", Kind::Float)],
    doc: "Sets the fraction of values that a consolidated point requires, for these series and for \
          functions evaluated later.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, share) = (call.series()?, call.number(1)?);
    call.scope.set_x_files_factor(share.value());
    for series in &mut list {
        series.x_files_factor = share.value();
        series.tags.set("xFilesFactor", share);
    }
    Ok(list)
}
