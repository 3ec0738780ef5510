//! `highest`: keeps the `n` series with the largest aggregate.

use super::keys::take_first;
use super::sort_by::sort_by;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Parameter, Preset, optional, required};
use crate::series::Series;

/// The parameters of `highest` and `lowest`.
pub(super) const PARAMETERS: [Parameter; 3] = [
    required("seriesList", Kind::SeriesList),
    optional("n", Kind::Integer).or(Preset::Int(1)),
    optional("func", Kind::AggFunc).or(Preset::Text("average")),
];

pub(super) const FUNCTION: Function = Function {
    name: "highest",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "Keeps the `n` series with the largest aggregate.",
    body: Body::Series(run),
};

fn run(call: Call) -> Result<Vec<Series>> {
    ranked(call, true)
}

/// Ranks series by an aggregate and keeps the first ones, the largest or the smallest first.
pub(super) fn ranked(mut call: Call, is_largest_first: bool) -> Result<Vec<Series>> {
    let (list, n, function) = (call.series()?, call.integer(1)?, call.text(2)?);
    let function = Aggregation::named(&function)?;
    Ok(take_first(sort_by(list, function, is_largest_first)?, n))
}
