//! `aggregateWithWildcards`: aggregates series whose paths differ only in the nodes at the given
//! positions.

use sandur_base::job::spend;

use crate::call::{Call, NodeOrTag};
use crate::combine::{Groups, aggregate};
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "aggregateWithWildcards",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("func", Kind::AggFunc),
        optional("position", Kind::Node).many(),
    ],
    doc: "Aggregates series whose paths differ only in the nodes at the given positions.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, function) = (call.series()?, call.text(1)?);
    wildcards(&mut call, list, &function)
}

/// Aggregates by one function over the nodes in the `position` parameters.
pub(super) fn wildcards(call: &mut Call, list: Vec<Series>, function: &str) -> Result<Vec<Series>> {
    let positions = call.nodes()?;
    let mut groups = Groups::<Vec<Series>>::new();
    for series in list {
        spend(series.name.len() * (positions.len() + 1))?;
        let nodes = series.name.split('.').enumerate();
        let kept = nodes.filter(|(place, _)| !positions.contains(&NodeOrTag::Node(*place as i64)));
        let key = kept.map(|(_, node)| node).collect::<Vec<_>>().join(".");
        groups.of(&key).push(series);
    }
    let mut results = Vec::new();
    for (key, mut group) in groups.into_groups() {
        for mut series in aggregate(&call.scope, &mut group, function, None)? {
            series.name = key.to_string();
            results.push(series);
        }
    }
    Ok(results)
}
