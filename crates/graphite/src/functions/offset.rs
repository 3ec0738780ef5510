//! `offset`: adds a constant to each point.

use super::series_of::transform;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "offset",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("factor", Kind::Float)],
    doc: "Adds a constant to each point.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, factor) = (call.series()?, call.number(1)?);
    list.iter_mut().for_each(|series| series.tags.set("offset", factor));
    let shown = general(factor.value());
    transform(list, |name| format!("offset({name},{shown})"), |value| Ok(Some(value + factor.value())))
}
