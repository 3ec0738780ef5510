//! `groupByNodes`: aggregates the series that have the same nodes and tags.

use super::callback::with_callback;
use super::keys::group_by_key;
use crate::call::{Call, NodeOrTag};
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::scope::Scope;
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "groupByNodes",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("callback", Kind::AggOrSeriesFunc),
        optional("nodes", Kind::NodeOrTag).many(),
    ],
    doc: "Aggregates the series that have the same nodes and tags.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, callback, nodes) = (call.series()?, call.text(1)?, call.nodes()?);
    grouped(&call.scope, list, &nodes, &callback)
}

/// Aggregates the series of each key.
pub(super) fn grouped(
    scope: &Scope,
    list: Vec<Series>,
    nodes: &[NodeOrTag],
    callback: &str,
) -> Result<Vec<Series>> {
    let one = |(key, group): (std::sync::Arc<str>, Vec<Series>)| {
        let mut series = with_callback(scope, group, callback)?;
        series.name = key.to_string();
        Ok(series)
    };
    group_by_key(list, nodes)?.into_groups().map(one).collect()
}
