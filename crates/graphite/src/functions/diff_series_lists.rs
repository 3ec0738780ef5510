//! `diffSeriesLists`: subtracts the series of the second list from those of the first, in pairs.

use super::pairwise::combine_lists;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "diffSeriesLists",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: true,
    parameters: &[
        required("seriesListFirstPos", Kind::SeriesList),
        required("seriesListSecondPos", Kind::SeriesList),
    ],
    doc: "Subtracts the series of the second list from those of the first, in pairs.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    combine_lists(&mut call, "diff", None)
}
