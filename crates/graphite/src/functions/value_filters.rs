//! Removes the values of each series that are beyond a bound.

use sandur_memory::job::spend;

use super::series_of::transform;
use crate::aggregation::percentile;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::Function;
use crate::group::Group;
use crate::number::{Number, general};
use crate::parameter::{Kind, SERIES, required};
use crate::series::Series;

const BASE: Function = Function::of(Group::FilterData)
    .named("removeAboveValue", "Removes the values above a threshold.", |call| within_value(call, f64::le))
    .taking(&[SERIES, required("n", Kind::Float)]);

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named("removeAbovePercentile", "Removes the values above a percentile of their series.", |call| {
        within_percentile(call, f64::le)
    }),
    BASE.named("removeBelowPercentile", "Removes the values below a percentile of their series.", |call| {
        within_percentile(call, f64::ge)
    }),
    BASE.named("removeBelowValue", "Removes the values below a threshold.", |call| {
        within_value(call, f64::ge)
    }),
];

/// Compares a value with a bound.
type Compare = fn(&f64, &f64) -> bool;

fn within_value(mut call: Call, is_within: Compare) -> Result<Vec<Series>> {
    let (list, n, function) = (call.series()?, call.float(1)?, call.function.name);
    let shown = general(n);
    let keep = |value: f64| Ok((is_within(&value, &n) || value.is_nan()).then_some(value));
    transform(list, |name| format!("{function}({name}, {shown})"), keep)
}

fn within_percentile(mut call: Call, is_within: Compare) -> Result<Vec<Series>> {
    let (mut list, n, function) = (call.series()?, call.number(1)?, call.function.name);
    for series in &mut list {
        series.rename(format!("{function}({}, {})", series.name, general(n.value())));
        // Too few values have no such percentile; then none is removed.
        let bound = match percentile_of(series, n) {
            Err(Error::Invalid(_)) if n.value() != 0.0 => continue,
            bound => bound?,
        };
        let Some(bound) = bound else { continue };
        series.values.map_values(|value| (is_within(&value, &bound) || value.is_nan()).then_some(value))?;
    }
    Ok(list)
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
