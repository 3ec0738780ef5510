//! `alpha`: sets the opacity with which series are drawn.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::{Drawing, Series};

pub(super) const FUNCTION: Function = Function {
    name: "alpha",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("alpha", Kind::Float)],
    doc: "Sets the opacity with which series are drawn.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, alpha) = (call.series()?, call.number(1)?);
    list.iter_mut().for_each(|series| series.draw("alpha", Drawing::Number(alpha)));
    Ok(list)
}
