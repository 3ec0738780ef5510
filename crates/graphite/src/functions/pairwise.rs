//! Combines two lists of series in pairs.

use crate::call::Call;
use crate::combine::aggregate;
use crate::error::{Error, Result};
use crate::series::Series;

/// Pairs of series from two lists, which must have the same length.
pub(super) fn same_length(call: &mut Call) -> Result<impl Iterator<Item = (Series, Series)> + use<>> {
    let (first, second) = (call.list(0)?, call.list(1)?);
    if first.len() != second.len() {
        let (a, b) = (first.len(), second.len());
        return Err(Error::invalid(format!("both lists must have as many series, but have {a} and {b}")));
    }
    Ok(first.into_iter().zip(second))
}

/// Applies a function to each pair of series.
pub(super) fn combine_lists(call: &mut Call, function: &str, share: Option<f64>) -> Result<Vec<Series>> {
    let mut results = Vec::new();
    for (first, second) in same_length(call)? {
        let names = format!("Series({},{})", first.name, second.name);
        for mut series in aggregate(&call.scope, &mut [first, second], function, share)? {
            let head = series.name.find("Series(").unwrap_or(series.name.len());
            series.name.replace_range(head.., &names);
            results.push(series);
        }
    }
    Ok(results)
}
