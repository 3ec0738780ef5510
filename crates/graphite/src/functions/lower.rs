//! `lower`: converts series names, or the characters at the given positions, to lower case.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "lower",
    aliases: &["toLowerCase"],
    group: Group::Alias,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), optional("pos", Kind::Integer).many()],
    doc: "Converts series names, or the characters at the given positions, to lower case.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, places) = (call.series()?, call.nodes()?);
    super::upper::changed(list, &places, |sign| sign.to_lowercase().collect())
}
