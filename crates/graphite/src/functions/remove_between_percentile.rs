//! `removeBetweenPercentile`: keeps the series that at some timestamp are not strictly between the
//! percentiles `n` and `100 - n` of all series.

use crate::aggregation::percentile;
use crate::call::Call;
use crate::combine::rows;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "removeBetweenPercentile",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("n", Kind::Float)],
    doc: "Keeps the series that at some timestamp are not strictly between the percentiles `n` and \
          `100 - n` of all series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.float(1)?);
    let n = if n < 50.0 { 100.0 - n } else { n };
    let low = rows(&list, |row| percentile(row.iter().copied(), 100.0 - n, false))?;
    let high = rows(&list, |row| percentile(row.iter().copied(), n, false))?;
    let mut results = Vec::new();
    for series in list {
        let mut is_outside = false;
        for (place, value) in series.points().enumerate() {
            let (Some(low), Some(value), Some(high)) = (low.get(place), value, high.get(place)) else {
                return Err(Error::invalid(format!("{} has places without a value", series.name)));
            };
            is_outside |= !(low < value && value < high);
        }
        if is_outside {
            results.push(series);
        }
    }
    Ok(results)
}
