//! `sumSeriesLists`: adds the series of two lists in pairs.

use super::pairwise::combine_lists;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "sumSeriesLists",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: true,
    parameters: &[
        required("seriesListFirstPos", Kind::SeriesList),
        required("seriesListSecondPos", Kind::SeriesList),
    ],
    doc: "Adds the series of two lists in pairs.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    combine_lists(&mut call, "sum", None)
}
