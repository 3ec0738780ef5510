//! `nPercentile`: draws a horizontal line at a percentile of each series.

use sandur_base::job::spend;

use crate::aggregation::percentile;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::number::{Number, general};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "nPercentile",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("n", Kind::Float)],
    doc: "Draws a horizontal line at a percentile of each series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.number(1)?);
    let mut results = Vec::new();
    for mut series in list {
        let Some(value) = percentile_of(&mut series, n)? else { continue };
        let length = (series.end.saturating_sub(series.start)) / series.step.max(1);
        let values = Column::filled(Some(value), usize::try_from(length).unwrap_or(0))?;
        let name = format!("nPercentile({}, {})", series.name, general(n.value()));
        results.push(series.derived(name, values));
    }
    Ok(results)
}

/// The percentile of a series; also sets the tag with `n`.
pub(super) fn percentile_of(series: &mut Series, n: Number) -> Result<Option<f64>> {
    if n.value() == 0.0 {
        return Err(Error::invalid("The requested percent is required to be greater than 0"));
    }
    spend(series.values.len())?;
    let value = percentile(series.points(), n.value(), false)?;
    if value.is_some() {
        series.tags.set("nPercentile", n);
    }
    Ok(value)
}
