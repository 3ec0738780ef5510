//! `fallbackSeries`: returns the fallback if the first target has no series.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "fallbackSeries",
    aliases: &[],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("fallback", Kind::SeriesList)],
    doc: "Returns the fallback if the first target has no series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, fallback) = (call.list(0)?, call.list(1)?);
    Ok(if list.is_empty() { fallback } else { list })
}
