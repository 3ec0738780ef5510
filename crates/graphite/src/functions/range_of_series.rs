//! `rangeOfSeries`: computes the maximum minus the minimum of all series at each timestamp.

use crate::call::Call;
use crate::combine::aggregate;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "rangeOfSeries",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: true,
    parameters: &[required("seriesLists", Kind::SeriesList).many()],
    doc: "Computes the maximum minus the minimum of all series at each timestamp.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.rest_lists()?.into_iter().flatten().collect::<Vec<_>>();
    aggregate(&call.scope, &mut list, "rangeOf", None)
}
