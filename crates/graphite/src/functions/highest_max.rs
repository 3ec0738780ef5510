//! `highestMax`: keeps the `n` series with the largest maximum.

use super::keys::take_first;
use super::sort_by::sort_by;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "highestMax",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("n", Kind::Integer)],
    doc: "Keeps the `n` series with the largest maximum.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.integer(1)?);
    Ok(take_first(sort_by(list, Aggregation::Max, true)?, n))
}
