//! Groups series by nodes of their paths and by tags, and reduces each group.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use sandur_memory::job::spend;

use super::find;
use super::keys::{bound_in, group_by_key, place_in};
use crate::call::{Call, NodeOrTag};
use crate::combine::{Groups, aggregate};
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::grammar::TARGET_BYTES_MAX;
use crate::group::Group;
use crate::parameter::{Argument, Kind, Parameter, Preset, SERIES, optional, required};
use crate::pattern::{REPLACED_BYTES_MAX, replaced};
use crate::scope::Scope;
use crate::series::Series;
use crate::tags::parse_name;

const BASE: Function = Function::of(Group::Combine)
    .named(
        "groupByNode",
        "Aggregates the series that have the same node at a position of their path.",
        group_by_node,
    )
    .taking(&[
        SERIES,
        required("nodeNum", Kind::NodeOrTag),
        optional("callback", Kind::AggOrSeriesFunc).or(Preset::Text("average")),
    ]);

/// Entries that aggregate by a fixed function over the nodes at the given positions.
const WILDCARDS: Function = Function {
    name: "sumSeriesWithWildcards",
    aggregates: true,
    parameters: &[SERIES, POSITIONS],
    doc: "Computes the sum of series whose paths differ only in the nodes at the given positions.",
    body: Body::Series(|call| with_wildcards(call, "sum")),
    ..BASE
};

const POSITIONS: Parameter = optional("position", Kind::Node).many();

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named("groupByNodes", "Aggregates the series that have the same nodes and tags.", group_by_nodes)
        .taking(&[
            SERIES,
            required("callback", Kind::AggOrSeriesFunc),
            optional("nodes", Kind::NodeOrTag).many(),
        ]),
    BASE.named("groupByTags", "Aggregates the series that have the same values of tags.", group_by_tags)
        .taking(&[SERIES, required("callback", Kind::AggOrSeriesFunc), required("tags", Kind::Tag).many()]),
    Function {
        name: "applyByNode",
        parameters: &[
            SERIES,
            required("nodeNum", Kind::Node),
            required("templateFunction", Kind::Text),
            optional("newName", Kind::Text),
        ],
        doc: "Evaluates a target once for each distinct path up to a node; `%` in the target stands for \
              this path.",
        body: Body::EvaluatingCall(|again| apply_by_node(again).boxed()),
        ..BASE
    },
    Function {
        name: "mapSeries",
        aliases: &["map"],
        parameters: &[SERIES, required("mapNodes", Kind::NodeOrTag).many()],
        doc: "Groups series with the same nodes and tags into lists, as input of `reduceSeries`.",
        body: Body::Lists(map_series),
        ..BASE
    },
    Function {
        name: "reduceSeries",
        aliases: &["reduce"],
        parameters: &[
            required("seriesLists", Kind::SeriesLists),
            required("reduceFunction", Kind::Text),
            required("reduceNode", Kind::Node),
            required("reduceMatchers", Kind::Text).many(),
        ],
        doc: "Calls a function with the series of each list, which are passed in the order in which \
              `reduceMatchers` match their node.",
        body: Body::Series(reduce_series),
        ..BASE
    },
    Function {
        name: "aggregateWithWildcards",
        aggregates: false,
        parameters: &[SERIES, required("func", Kind::AggFunc), POSITIONS],
        doc: "Aggregates series whose paths differ only in the nodes at the given positions.",
        body: Body::Series(aggregate_with_wildcards),
        ..WILDCARDS
    },
    WILDCARDS.named(
        "averageSeriesWithWildcards",
        "Computes the average of series whose paths differ only in the nodes at the given positions.",
        |call| with_wildcards(call, "average"),
    ),
    WILDCARDS.named(
        "multiplySeriesWithWildcards",
        "Computes the product of series whose paths differ only in the nodes at the given positions.",
        |call| with_wildcards(call, "multiply"),
    ),
    WILDCARDS,
];

fn group_by_node(mut call: Call) -> Result<Vec<Series>> {
    let (list, node, callback) = (call.series()?, call.node(1)?, call.text(2)?);
    grouped(&call.scope, list, &[node], &callback)
}

fn group_by_nodes(mut call: Call) -> Result<Vec<Series>> {
    let (list, callback, nodes) = (call.series()?, call.text(1)?, call.nodes()?);
    grouped(&call.scope, list, &nodes, &callback)
}

/// Aggregates the series of each key.
fn grouped(scope: &Scope, list: Vec<Series>, nodes: &[NodeOrTag], callback: &str) -> Result<Vec<Series>> {
    let one = |(key, group): (std::sync::Arc<str>, Vec<Series>)| {
        let mut series = with_callback(scope, group, callback)?;
        series.name = key.to_string();
        Ok(series)
    };
    group_by_key(list, nodes)?.into_groups().map(one).collect()
}

fn group_by_tags(mut call: Call) -> Result<Vec<Series>> {
    let (list, callback, tags) = (call.series()?, call.text(1)?, call.texts()?);
    if tags.is_empty() {
        return Err(Error::invalid("groupByTags(): no tags specified"));
    }
    let named = |series: &Series| series.tags.get("name").unwrap_or_default().to_owned();
    let by_name = tags.iter().any(|tag| tag == "name");
    let mut names: Vec<String> = list.iter().map(named).collect();
    names.dedup();
    let common = if names.len() == 1 { names.remove(0) } else { callback.clone() };
    let mut groups = Groups::<Vec<Series>>::new();
    for series in list {
        let others = tags.iter().filter(|tag| *tag != "name");
        let value = |tag: &String| series.tags.get(tag).unwrap_or_default().to_owned();
        let mut parts: Vec<String> = others.map(|tag| format!(";{tag}={}", value(tag))).collect();
        parts.sort();
        let key = if by_name { named(&series) } else { common.clone() } + &parts.concat();
        groups.of(&key).push(series);
    }
    let one = |(key, group): (std::sync::Arc<str>, Vec<Series>)| {
        let mut series = with_callback(&call.scope, group, &callback)?;
        series.tags = parse_name(&key)?;
        series.rename(key.to_string());
        Ok(series)
    };
    groups.into_groups().map(one).collect()
}

async fn apply_by_node(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (list, place, target, name) = (call.series()?, call.integer(1)?, call.text(2)?, call.maybe_text(3)?);
    let mut prefixes = std::collections::BTreeSet::new();
    for series in &list {
        let nodes: Vec<&str> = series.name.split('.').collect();
        if usize::try_from(place).is_ok_and(|place| place >= nodes.len()) {
            return Err(Error::invalid(format!("{} has no node {place}", series.name)));
        }
        prefixes.insert(nodes[..bound_in(nodes.len(), place.saturating_add(1))].join("."));
    }
    let Some(times) = list.last().map(|series| (series.start, series.end)) else { return Ok(Vec::new()) };
    let scope = again.call.scope.written();
    let mut results = Vec::new();
    for prefix in prefixes {
        let written = replaced(&target, "%", &prefix, TARGET_BYTES_MAX)?;
        let name = name.as_ref().filter(|name| !name.is_empty());
        let name = name.map(|name| replaced(name, "%", &prefix, REPLACED_BYTES_MAX)).transpose()?;
        let prefix: Arc<str> = prefix.into();
        for mut series in again.written(&written, &scope).await? {
            again.evaluator.check()?;
            if let Some(name) = &name {
                series.name.clone_from(name);
            }
            series.path_expression = Arc::clone(&prefix);
            (series.start, series.end) = times;
            results.push(series);
        }
    }
    Ok(results)
}

fn map_series(mut call: Call) -> Result<Vec<Vec<Series>>> {
    let (list, nodes) = (call.series()?, call.nodes()?);
    Ok(group_by_key(list, &nodes)?.into_groups().map(|(_, group)| group).collect())
}

fn reduce_series(mut call: Call) -> Result<Vec<Series>> {
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

fn with_wildcards(mut call: Call, function: &str) -> Result<Vec<Series>> {
    let list = call.series()?;
    wildcards(&mut call, list, function)
}

fn aggregate_with_wildcards(mut call: Call) -> Result<Vec<Series>> {
    let (list, function) = (call.series()?, call.text(1)?);
    wildcards(&mut call, list, &function)
}

/// Aggregates by one function over the nodes in the `position` parameters.
fn wildcards(call: &mut Call, list: Vec<Series>, function: &str) -> Result<Vec<Series>> {
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

/// Calls a function that depends only on its arguments.
fn call_plain(name: &str, scope: &Scope, arguments: Vec<Argument>) -> Result<Vec<Series>> {
    let function = find(name)?;
    match function.body {
        Body::Series(run) => run(Call::bind(function.callee(), scope.clone(), arguments, Vec::new())?),
        _ => Err(Error::invalid(format!("the function \"{name}\" cannot be called for groups of series"))),
    }
}

/// Reduces a group to one series, by a function or an aggregation.
fn with_callback(scope: &Scope, mut list: Vec<Series>, callback: &str) -> Result<Series> {
    let results = match find(callback) {
        Ok(function) if function.aggregates => call_plain(callback, scope, vec![Argument::Series(list)])?,
        _ => aggregate(scope, &mut list, callback, None)?,
    };
    let first = results.into_iter().next();
    first.ok_or_else(|| Error::invalid(format!("\"{callback}\" returns no series for a group")))
}
