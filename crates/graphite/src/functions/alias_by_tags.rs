//! `aliasByTags`: renames series to values of tags and nodes of their path, joined by dots.

use super::keys::aggregation_key;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "aliasByTags",
    aliases: &[],
    group: Group::Alias,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("tags", Kind::NodeOrTag).many()],
    doc: "Renames series to values of tags and nodes of their path, joined by dots.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, tags) = (call.series()?, call.nodes()?);
    for series in &mut list {
        series.name = aggregation_key(series, &tags)?;
    }
    Ok(list)
}
