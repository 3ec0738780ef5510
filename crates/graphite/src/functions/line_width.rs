//! `lineWidth`: sets the width of the lines of series.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::{Drawing, Series};

pub(super) const FUNCTION: Function = Function {
    name: "lineWidth",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("width", Kind::Float)],
    doc: "Sets the width of the lines of series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, width) = (call.series()?, call.number(1)?);
    list.iter_mut().for_each(|series| series.draw("lineWidth", Drawing::Number(width)));
    Ok(list)
}
