//! `diffSeries`: subtracts all other series from the first one.

use crate::call::Call;
use crate::combine::aggregate;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "diffSeries",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: true,
    parameters: &[required("seriesLists", Kind::SeriesList).many()],
    doc: "Subtracts all other series from the first one.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.rest_lists()?.into_iter().flatten().collect::<Vec<_>>();
    aggregate(&call.scope, &mut list, "diff", None)
}
