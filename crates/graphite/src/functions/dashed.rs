//! `dashed`: draws series with dashed lines.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::{Drawing, Series};

pub(super) const FUNCTION: Function = Function {
    name: "dashed",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("dashLength", Kind::Integer).or(Preset::Int(5)),
    ],
    doc: "Draws series with dashed lines.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, length) = (call.series()?, call.number(1)?);
    for series in &mut list {
        series.tags.set("dashed", length);
        series.name = format!("dashed({}, {})", series.name, general(length.value()));
        series.draw("dashed", Drawing::Number(length));
    }
    Ok(list)
}
