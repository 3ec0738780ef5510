//! `aliasByMetric`: renames series to the last node of their path.

use super::substr::shorten;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "aliasByMetric",
    aliases: &[],
    group: Group::Alias,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Renames series to the last node of their path.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    list.iter_mut().for_each(|series| series.name = shorten(&series.name, -1, 0));
    Ok(list)
}
