//! `reduceSeries`: calls a function with the series of each list, which are passed in the order in which
//! `reduceMatchers` match their node.

use std::collections::BTreeMap;

use sandur_base::job::spend;

use super::callback::call_plain;
use super::keys::{bound_in, place_in};
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
    doc: "Calls a function with the series of each list, which are passed in the order in which \
          `reduceMatchers` match their node.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (lists, function, place) = (call.lists()?, call.text(1)?, call.integer(2)?);
    let matchers = call.texts()?;
    // Groups hold only the series that exist, because both groups and matchers may be as many as the
    // request has texts.
    let mut groups = Groups::<BTreeMap<usize, Series>>::new();
    for series in lists.into_iter().flatten() {
        let nodes: Vec<&str> = series.name.split('.').collect();
        let node = place_in(nodes.len(), place)
            .ok_or_else(|| Error::invalid(format!("{} has no node {place}", series.name)))?;
        let head = nodes[..bound_in(nodes.len(), place)].join(".");
        let Some(matched) = matchers.iter().position(|matcher| matcher == nodes[node]) else { continue };
        spend(series.name.len() + matchers.len())?;
        groups.of(&format!("{head}.reduce.{function}")).insert(matched, series);
    }
    let mut results = Vec::new();
    for (key, group) in groups.into_groups() {
        if group.len() < matchers.len() {
            return Err(Error::invalid(format!("{key} lacks the series of a matcher")));
        }
        let arguments = group.into_values().map(|series| Argument::Series(vec![series])).collect();
        let reduced = call_plain(&function, &call.scope, arguments)?.into_iter().next();
        let mut series = reduced.ok_or_else(|| Error::invalid(format!("{key} has no series")))?;
        series.name = key.to_string();
        results.push(series);
    }
    Ok(results)
}
