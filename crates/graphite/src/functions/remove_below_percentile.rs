//! `removeBelowPercentile`: removes the values below a percentile of their series.

use super::n_percentile::percentile_of;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "removeBelowPercentile",
    aliases: &[],
    group: Group::FilterData,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("n", Kind::Float)],
    doc: "Removes the values below a percentile of their series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, n) = (call.series()?, call.number(1)?);
    for series in &mut list {
        series.rename(format!("removeBelowPercentile({}, {})", series.name, general(n.value())));
        // Too few values have no such percentile; then none is removed.
        let bound = match percentile_of(series, n) {
            Err(Error::Invalid(_)) if n.value() != 0.0 => continue,
            bound => bound?,
        };
        let Some(bound) = bound else { continue };
        series.values.map_values(|value| (value >= bound || value.is_nan()).then_some(value))?;
    }
    Ok(list)
}
