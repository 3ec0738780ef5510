//! `color`: sets the colour in which series are drawn.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "color",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("theColor", Kind::Text)],
    doc: "Sets the colour in which series are drawn.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, color) = (call.series()?, call.text(1)?);
    list.iter_mut().for_each(|series| series.color = Some(color.clone()));
    Ok(list)
}
