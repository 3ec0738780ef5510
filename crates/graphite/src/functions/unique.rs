//! `unique`: combines the series of several targets and keeps the first series of each name.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "unique",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesLists", Kind::SeriesList).many()],
    doc: "Combines the series of several targets and keeps the first series of each name.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut seen = foldhash::HashSet::default();
    let mut list: Vec<Series> = call.rest_lists()?.into_iter().flatten().collect();
    list.retain(|series| seen.insert(series.name.clone()));
    Ok(list)
}
