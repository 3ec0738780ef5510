//! `removeEmptySeries`: keeps the series in which at least one point, and at least the fraction
//! `xFilesFactor` of all points, has a value.

use crate::aggregation::is_enough;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "removeEmptySeries",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), optional("xFilesFactor", Kind::Float)],
    doc: "Keeps the series in which at least one point, and at least the fraction `xFilesFactor` of \
          all points, has a value.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, share) = (call.series()?, call.maybe_float(1)?.unwrap_or(0.0));
    list.retain(|series| {
        let points = series.points();
        is_enough(points.clone().flatten().count(), points.len() as f64, share)
    });
    Ok(list)
}
