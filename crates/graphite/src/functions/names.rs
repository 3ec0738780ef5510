//! Renames series.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use futures_util::FutureExt;
use sandur_memory::job::spend;

use super::keys::{aggregation_key, bound_in, place_in};
use super::python_format::python_format;
use crate::aggregation::Aggregation;
use crate::call::{Call, NodeOrTag};
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::group::Group;
use crate::number::Number;
use crate::parameter::{Argument, Kind, Preset, SERIES, optional, required};
use crate::pattern::Substitution;
use crate::series::Series;
use crate::tags::Tags;

const BASE: Function = Function::of(Group::Alias)
    .named("alias", "Renames series.", alias)
    .taking(&[SERIES, required("newName", Kind::Text)]);

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named(
        "aliasByBase64",
        "Decodes series names, or one node of them, from base64. Nodes count from 1.",
        alias_by_base64,
    )
    .taking(&[SERIES, optional("nodeNum", Kind::Integer)])
    .of_carbonapi(),
    BASE.named("aliasByMetric", "Renames series to the last node of their path.", alias_by_metric)
        .taking(&[SERIES]),
    BASE.named(
        "aliasByNode",
        "Renames series to nodes of their path and values of tags, joined by dots.",
        alias_by_nodes,
    )
    .taking(&[SERIES, required("nodes", Kind::NodeOrTag).many()]),
    BASE.named(
        "aliasByTags",
        "Renames series to values of tags and nodes of their path, joined by dots.",
        alias_by_nodes,
    )
    .taking(&[SERIES, required("tags", Kind::NodeOrTag).many()]),
    Function {
        name: "aliasQuery",
        parameters: &[
            SERIES,
            required("search", Kind::Regex),
            required("replace", Kind::Text),
            required("newName", Kind::Text),
        ],
        doc: "Renames series to a text with the last value of another series, whose target is the result \
              of a regular expression substitution on their name.",
        body: Body::EvaluatingCall(|again| alias_query(again).boxed()),
        ..BASE
    },
    BASE.named("aliasSub", "Renames series by a regular expression substitution.", alias_sub).taking(&[
        SERIES,
        required("search", Kind::Regex),
        required("replace", Kind::Text),
    ]),
    Function {
        name: "lower",
        aliases: &["toLowerCase"],
        parameters: &[SERIES, optional("pos", Kind::Integer).many()],
        doc: "Converts series names, or the characters at the given positions, to lower case.",
        body: Body::Series(|call| changed(call, |character| character.to_lowercase().collect())),
        ..BASE
    },
    Function {
        name: "substr",
        group: Group::Special,
        parameters: &[
            SERIES,
            optional("start", Kind::Node).or(Preset::Int(0)),
            optional("stop", Kind::Node).or(Preset::Int(0)),
        ],
        doc: "Renames series to a range of nodes of the path in their name.",
        body: Body::Series(substr),
        ..BASE
    },
    Function {
        name: "upper",
        aliases: &["toUpperCase"],
        parameters: &[SERIES, optional("pos", Kind::Integer).many()],
        doc: "Converts series names, or the characters at the given positions, to upper case.",
        body: Body::Series(|call| changed(call, |character| character.to_uppercase().collect())),
        ..BASE
    },
];

fn alias(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, name) = (call.series()?, call.argument(1));
    let name = match name {
        Argument::Text(text) => text,
        Argument::Number(number) => number.to_string(),
        _ => return Err(Error::invalid("a name is a text")),
    };
    list.iter_mut().for_each(|series| series.name.clone_from(&name));
    Ok(list)
}

fn alias_by_base64(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, node) = (call.series()?, call.maybe_number(1)?);
    for series in &mut list {
        spend(series.name.len())?;
        let decoded = match node {
            None => decoded(&series.name),
            Some(Number::Int(node)) => with_node_decoded(series, node),
            Some(Number::Float(_)) => None,
        };
        if let Some(name) = decoded {
            series.tags.set("name", &name);
            series.name = name;
        }
    }
    Ok(list)
}

fn decoded(text: &str) -> Option<String> {
    STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

fn with_node_decoded(series: &Series, node: i64) -> Option<String> {
    let mut nodes: Vec<String> = series.tags.get("name")?.split('.').map(str::to_owned).collect();
    let place = usize::try_from(node).ok()?.checked_sub(1)?;
    let found = nodes.get_mut(place)?;
    *found = decoded(found)?;
    Some(nodes.join("."))
}

fn alias_by_metric(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    list.iter_mut().for_each(|series| series.name = shorten(&series.name, -1, 0));
    Ok(list)
}

fn alias_by_nodes(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, nodes) = (call.series()?, call.nodes()?);
    for series in &mut list {
        series.name = aggregation_key(series, &nodes)?;
    }
    Ok(list)
}

async fn alias_query(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (mut list, search, replace, name) = (call.series()?, call.text(1)?, call.text(2)?, call.text(3)?);
    let queries = queries(&again, &list, (search, replace)).await?;
    let scope = again.call.scope.written();
    for (series, query) in list.iter_mut().zip(queries) {
        again.evaluator.check()?;
        let found = again.written(&query, &scope).await?;
        let first =
            found.first().ok_or_else(|| Error::invalid(format!("No series found with query: {query}")))?;
        let current = Aggregation::Last.of(first.points());
        let current =
            current.ok_or_else(|| Error::invalid(format!("Cannot get last value of series: {query}")))?;
        let is_integer = first.values.is_whole() && first.values_per_point == 1;
        series.name = python_format(&name, current, is_integer)?;
    }
    Ok(list)
}

/// Computes the targets: the result of the substitution for each series name.
async fn queries(
    again: &EvaluatingCall<'_>,
    list: &[Series],
    (search, replace): (String, String),
) -> Result<Vec<String>> {
    let names: Vec<String> = list.iter().map(|series| series.name.clone()).collect();
    let named = again.compute(move || {
        let substitution = Substitution::new(&search, &replace)?;
        let named = |name: &String| {
            let query = substitution.apply(name)?;
            Ok(Series::tagged(query, Tags::default(), (0, 0, 1), Column::default()))
        };
        names.iter().map(named).collect()
    });
    Ok(named.await?.into_iter().map(|series| series.name).collect())
}

fn alias_sub(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, search, replace) = (call.series()?, call.text(1)?, call.text(2)?);
    let substitution = Substitution::new(&search, &replace)?;
    for series in &mut list {
        series.name = substitution.apply(&series.name)?;
    }
    Ok(list)
}

fn substr(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, start, stop) = (call.series()?, call.integer(1)?, call.integer(2)?);
    list.iter_mut().for_each(|series| series.name = shorten(&series.name, start, stop));
    Ok(list)
}

/// The nodes from `start` to `stop`, exclusive, of the path inside all parentheses of the name.
fn shorten(name: &str, start: i64, stop: i64) -> String {
    let left = name.rfind('(').map_or(0, |at| at + 1);
    let right = name.find(')').unwrap_or(name.len());
    let clean = name.get(left..right).unwrap_or_default();
    let nodes: Vec<&str> = clean.split('.').collect();
    let stop = if stop == 0 { nodes.len() } else { bound_in(nodes.len(), stop) };
    let kept = nodes.get(bound_in(nodes.len(), start)..stop).unwrap_or_default().join(".");
    match (kept.find(','), kept.find('\n')) {
        (Some(comma), None) => kept[..comma].to_owned(),
        _ => kept,
    }
}

/// Changes all characters of names, or those at the given positions.
fn changed(mut call: Call, change: fn(char) -> String) -> Result<Vec<Series>> {
    let (mut list, places) = (call.series()?, call.nodes()?);
    for series in &mut list {
        let chars: Vec<char> = series.name.chars().collect();
        let mut wanted = vec![places.is_empty(); chars.len()];
        for place in &places {
            let NodeOrTag::Node(place) = place else {
                return Err(Error::invalid("a place is a whole number"));
            };
            if let Some(place) = place_in(chars.len(), *place) {
                wanted[place] = true;
            }
        }
        let changed = chars.into_iter().zip(wanted);
        series.name = changed
            .map(|(character, wanted)| if wanted { change(character) } else { character.to_string() })
            .collect();
    }
    Ok(list)
}
