//! `limit`: keeps the first `n` series.

use super::keys::take_first;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "limit",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("n", Kind::Integer)],
    doc: "Keeps the first `n` series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.integer(1)?);
    Ok(take_first(list, n))
}
