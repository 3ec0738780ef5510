//! `averageSeriesWithWildcards`: computes the average of series whose paths differ only in the nodes at
//! the given positions.

use super::aggregate_with_wildcards::wildcards;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "averageSeriesWithWildcards",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: true,
    parameters: &[required("seriesList", Kind::SeriesList), optional("position", Kind::Node).many()],
    doc: "Computes the average of series whose paths differ only in the nodes at the given positions.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let list = call.series()?;
    wildcards(&mut call, list, "average")
}
