//! `reduceSeries`: a function over the series of each list, by the names of one of their nodes.

use super::callback::call_plain;
use super::keys::bound_in;
use super::keys::place_in;
use crate::call::Call;
use crate::combine::Groups;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Argument, Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "reduceSeries",
    aliases: &["reduce"],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesLists", Kind::SeriesLists),
        required("reduceFunction", Kind::Text),
        required("reduceNode", Kind::Node),
        required("reduceMatchers", Kind::Text).many(),
    ],
    doc: "A function over the series of each list, by the names of one of their nodes.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (lists, function, place) = (call.lists()?, call.text(1)?, call.integer(2)?);
    let matchers = call.texts()?;
    let mut groups = Groups::<Vec<Option<Series>>>::new();
    for series in lists.into_iter().flatten() {
        let nodes: Vec<&str> = series.name.split('.').collect();
        let node = place_in(nodes.len(), place)
            .ok_or_else(|| Error::invalid(format!("{} has no node {place}", series.name)))?;
        let head = nodes[..bound_in(nodes.len(), place)].join(".");
        let Some(matched) = matchers.iter().position(|matcher| matcher == nodes[node]) else { continue };
        let group = groups.of(&format!("{head}.reduce.{function}"));
        group.resize_with(matchers.len(), || None);
        group[matched] = Some(series);
    }
    let mut results = Vec::new();
    for (key, group) in groups.into_groups() {
        let whole: Option<Vec<Series>> = group.into_iter().collect();
        let whole = whole.ok_or_else(|| Error::invalid(format!("{key} lacks the series of a matcher")))?;
        let arguments = whole.into_iter().map(|series| Argument::Series(vec![series])).collect();
        let reduced = call_plain(&function, &call.scope, arguments)?.into_iter().next();
        let mut series = reduced.ok_or_else(|| Error::invalid(format!("{key} has no series")))?;
        series.name = key.to_string();
        results.push(series);
    }
    Ok(results)
}
