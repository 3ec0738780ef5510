//! `upper`: converts series names, or the characters at the given positions, to upper case.

use super::keys::place_in;
use crate::call::{Call, NodeOrTag};
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "upper",
    aliases: &["toUpperCase"],
    group: Group::Alias,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), optional("pos", Kind::Integer).many()],
    doc: "Converts series names, or the characters at the given positions, to upper case.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, places) = (call.series()?, call.nodes()?);
    changed(list, &places, |sign| sign.to_uppercase().collect())
}

/// Changes all characters of names, or those at the given positions.
pub(super) fn changed(
    mut list: Vec<Series>,
    places: &[NodeOrTag],
    change: impl Fn(char) -> String,
) -> Result<Vec<Series>> {
    for series in &mut list {
        let signs: Vec<char> = series.name.chars().collect();
        let mut wanted = vec![places.is_empty(); signs.len()];
        for place in places {
            let NodeOrTag::Node(place) = place else {
                return Err(Error::invalid("a place is a whole number"));
            };
            if let Some(place) = place_in(signs.len(), *place) {
                wanted[place] = true;
            }
        }
        let changed = signs.into_iter().zip(wanted);
        series.name =
            changed.map(|(sign, wanted)| if wanted { change(sign) } else { sign.to_string() }).collect();
    }
    Ok(list)
}
