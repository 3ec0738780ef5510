//! `multiplySeries`: computes the product of all series at each timestamp.

use crate::call::Call;
use crate::combine::aggregate;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "multiplySeries",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: true,
    parameters: &[required("seriesLists", Kind::SeriesList).many()],
    doc: "Computes the product of all series at each timestamp.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut lists = call.rest_lists()?;
    if let [list] = lists.as_mut_slice()
        && list.len() == 1
    {
        return Ok(std::mem::take(list));
    }
    let mut list = lists.into_iter().flatten().collect::<Vec<_>>();
    aggregate(&call.scope, &mut list, "multiply", None)
}
