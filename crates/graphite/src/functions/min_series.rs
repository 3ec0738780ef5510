//! `minSeries`: the smallest value of all series at each time.

use crate::call::Call;
use crate::combine::aggregate;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "minSeries",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: true,
    parameters: &[required("seriesLists", Kind::SeriesList).many()],
    doc: "The smallest value of all series at each time.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.rest_lists()?.into_iter().flatten().collect::<Vec<_>>();
    aggregate(&call.scope, &mut list, "min", None)
}
