//! `mapSeries`: groups series with the same nodes and tags into lists, as input of `reduceSeries`.

use super::keys::group_by_key;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "mapSeries",
    aliases: &["map"],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("mapNodes", Kind::NodeOrTag).many()],
    doc: "Groups series with the same nodes and tags into lists, as input of `reduceSeries`.",
    body: Body::Lists(run),
};

fn run(mut call: Call) -> Result<Vec<Vec<Series>>> {
    let (list, nodes) = (call.series()?, call.nodes()?);
    Ok(group_by_key(list, &nodes)?.into_groups().map(|(_, group)| group).collect())
}
