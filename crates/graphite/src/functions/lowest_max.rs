//! `lowestMax`: keeps the `n` series with the smallest maximum.

use super::keys::take_first;
use super::sort_by::sort_by;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "lowestMax",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), optional("n", Kind::Integer).or(Preset::Int(1))],
    doc: "Keeps the `n` series with the smallest maximum.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.integer(1)?);
    Ok(take_first(sort_by(list, Aggregation::Max, false)?, n.max(0)))
}
