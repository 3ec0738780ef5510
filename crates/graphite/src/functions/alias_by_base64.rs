//! `aliasByBase64`: decodes series names, or one node of them, from base64. Nodes count from 1.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use sandur_base::job::spend;

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::number::Number;
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "aliasByBase64",
    aliases: &[],
    group: Group::Alias,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), optional("nodeNum", Kind::Integer)],
    doc: "Decodes series names, or one node of them, from base64. Nodes count from 1.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
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
