//! `offsetToZero`: subtracts the minimum of each series from its points.

use super::value_text::value_text;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "offsetToZero",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Subtracts the minimum of each series from its points.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    for series in &mut list {
        let least = Aggregation::Min.of(series.points());
        series.tags.set("offsetToZero", value_text(series, Aggregation::Min));
        series.rename(format!("offsetToZero({})", series.name));
        series.values.map_values(|value| least.map(|least| value - least))?;
    }
    Ok(list)
}
