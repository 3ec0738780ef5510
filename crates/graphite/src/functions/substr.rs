//! `substr`: renames series to a range of nodes of the path in their name.

use super::keys::bound_in;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "substr",
    aliases: &[],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("start", Kind::Node).or(Preset::Int(0)),
        optional("stop", Kind::Node).or(Preset::Int(0)),
    ],
    doc: "Renames series to a range of nodes of the path in their name.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, start, stop) = (call.series()?, call.integer(1)?, call.integer(2)?);
    list.iter_mut().for_each(|series| series.name = shorten(&series.name, start, stop));
    Ok(list)
}

/// The nodes from `start` to `stop`, exclusive, of the path inside all parentheses of the name.
pub(super) fn shorten(name: &str, start: i64, stop: i64) -> String {
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
