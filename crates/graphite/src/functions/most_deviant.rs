//! `mostDeviant`: keeps the `n` series with the largest variance.

use sandur_base::job::spend;

use super::keys::take_first;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "mostDeviant",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("n", Kind::Integer)],
    doc: "Keeps the `n` series with the largest variance.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.integer(1)?);
    let mut deviants = Vec::new();
    for series in list {
        spend(series.values.len())?;
        let Some(mean) = Aggregation::Average.of(series.points()) else { continue };
        let (mut squares, mut count) = (0.0, 0.0);
        for value in series.points().flatten() {
            squares += (value - mean) * (value - mean);
            count += 1.0;
        }
        deviants.push((squares / count, series));
    }
    deviants.sort_by(|a, b| crate::aggregation::order(b.0, a.0));
    Ok(take_first(deviants.into_iter().map(|(_, series)| series).collect(), n))
}
