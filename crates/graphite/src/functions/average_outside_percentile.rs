//! `averageOutsidePercentile`: keeps the series whose average is not strictly between the percentiles `n`
//! and `100 - n` of all averages.

use crate::aggregation::{Aggregation, percentile};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "averageOutsidePercentile",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("n", Kind::Float)],
    doc: "Keeps the series whose average is not strictly between the percentiles `n` and `100 - n` \
          of all averages.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.float(1)?);
    let n = if n < 50.0 { 100.0 - n } else { n };
    let averages: Vec<Option<f64>> =
        list.iter().map(|series| Aggregation::Average.of(series.points())).collect();
    let low = percentile(averages.iter().copied(), 100.0 - n, false)?;
    let high = percentile(averages.iter().copied(), n, false)?;
    let mut results = Vec::new();
    for (series, average) in list.into_iter().zip(averages) {
        let (Some(low), Some(average), Some(high)) = (low, average, high) else {
            return Err(Error::invalid(format!("{} has no value, so no average", series.name)));
        };
        if !(low < average && average < high) {
            results.push(series);
        }
    }
    Ok(results)
}
