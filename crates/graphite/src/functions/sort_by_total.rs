//! `sortByTotal`: sorts series by the sum of their values, in descending order.

use super::sort_by::sort_by;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "sortByTotal",
    aliases: &[],
    group: Group::Sorting,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Sorts series by the sum of their values, in descending order.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    sort_by(call.series()?, Aggregation::Sum, true)
}
