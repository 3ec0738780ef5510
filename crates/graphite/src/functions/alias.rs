//! `alias`: renames series.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Argument, Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "alias",
    aliases: &[],
    group: Group::Alias,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("newName", Kind::Text)],
    doc: "Renames series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, name) = (call.series()?, call.argument(1));
    let name = match name {
        Argument::Text(text) => text,
        Argument::Number(number) => number.to_string(),
        _ => return Err(Error::invalid("a name is a text")),
    };
    list.iter_mut().for_each(|series| series.name.clone_from(&name));
    Ok(list)
}
