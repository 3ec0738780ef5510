//! `diffSeriesLists`: each series of one list less that of another.

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
    doc: "Each series of one list less that of another.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    combine_lists(&mut call, "diff", None)
}
