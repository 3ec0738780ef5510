//! `scale`: multiplies each point by a constant.

use super::series_of::transform;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "scale",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("factor", Kind::Float)],
    doc: "Multiplies each point by a constant.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, factor) = (call.series()?, call.number(1)?);
    list.iter_mut().for_each(|series| series.tags.set("scale", factor));
    let shown = general(factor.value());
    transform(list, |name| format!("scale({name},{shown})"), |value| Ok(Some(value * factor.value())))
}
