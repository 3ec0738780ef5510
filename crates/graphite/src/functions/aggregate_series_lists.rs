//! `aggregateSeriesLists`: aggregates the series of two lists in pairs.

use super::pairwise::combine_lists;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "aggregateSeriesLists",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesListFirstPos", Kind::SeriesList),
        required("seriesListSecondPos", Kind::SeriesList),
        required("func", Kind::AggFunc),
        optional("xFilesFactor", Kind::Float),
    ],
    doc: "Aggregates the series of two lists in pairs.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (function, share) = (call.text(2)?, call.maybe_float(3)?);
    combine_lists(&mut call, &function, share)
}
