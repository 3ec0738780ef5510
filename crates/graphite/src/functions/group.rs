//! `group`: combines the series of several targets in one list.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "group",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[optional("seriesLists", Kind::SeriesList).many()],
    doc: "Combines the series of several targets in one list.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    Ok(call.rest_lists()?.into_iter().flatten().collect())
}
