//! `groupByNode`: aggregates the series that have the same node at a position of their path.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "groupByNode",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("nodeNum", Kind::NodeOrTag),
        optional("callback", Kind::AggOrSeriesFunc).or(Preset::Text("average")),
    ],
    doc: "Aggregates the series that have the same node at a position of their path.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, node, callback) = (call.series()?, call.node(1)?, call.text(2)?);
    super::group_by_nodes::grouped(&call.scope, list, &[node], &callback)
}
