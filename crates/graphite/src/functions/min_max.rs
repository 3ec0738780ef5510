//! `minMax`: scales each series to the range from 0, its minimum, to 1, its maximum.

use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "minMax",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Scales each series to the range from 0, its minimum, to 1, its maximum.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    for series in &mut list {
        series.rename(format!("minMax({})", series.name));
        let least = Aggregation::Min.of(series.points()).unwrap_or(0.0);
        let range = Aggregation::Max.of(series.points()).unwrap_or(0.0) - least;
        let scaled = |value: f64| Some(if range == 0.0 { 0.0 } else { (value - least) / range });
        series.values.map_values(scaled)?;
    }
    Ok(list)
}
