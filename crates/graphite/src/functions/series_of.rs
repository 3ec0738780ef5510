//! Maps each series to a series: replaces values in place, or builds a series with new ones.

use crate::column::Column;
use crate::error::Result;
use crate::series::Series;

/// Replaces each value and renames the series after the call.
pub(super) fn transform(
    mut list: Vec<Series>,
    name: impl Fn(&str) -> String,
    mut change: impl FnMut(f64) -> Result<Option<f64>>,
) -> Result<Vec<Series>> {
    for series in &mut list {
        series.rename(name(&series.name));
        let mut failure = None;
        series.values.map_values(|value| match change(value) {
            Ok(value) => value,
            Err(error) => {
                failure.get_or_insert(error);
                None
            }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
    }
    Ok(list)
}

/// Builds a series with new values for each series; drawing options are dropped.
pub(super) fn replace_values(
    list: Vec<Series>,
    mut change: impl FnMut(&mut Series) -> Result<(String, Column)>,
) -> Result<Vec<Series>> {
    let derive = |mut series: Series| {
        let (name, values) = change(&mut series)?;
        Ok(series.derived(name, values))
    };
    list.into_iter().map(derive).collect()
}
