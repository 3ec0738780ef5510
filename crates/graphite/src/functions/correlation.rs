//! Pearson's correlation of two series, and checks of arguments: a single series, a number of points.

use std::ops::Range;

use sandur_base::job::spend;

use crate::error::{Error, Result};
use crate::series::Series;

/// The series of an argument that must have exactly one.
pub(super) fn only(list: Vec<Series>, function: &str) -> Result<Series> {
    let count = list.len();
    match <[Series; 1]>::try_from(list) {
        Ok([series]) => Ok(series),
        Err(_) => Err(Error::invalid(format!("{function} compares single series, but is given {count}"))),
    }
}

/// Checks a number of points: at least 1.
pub(super) fn window(size: i64) -> Result<usize> {
    let size = usize::try_from(size).ok().filter(|size| *size > 0);
    size.ok_or_else(|| Error::invalid("a window must have at least 1 point"))
}

/// Pearson's correlation coefficient over the places at which both series have a value; `None` if one of
/// them is constant there.
pub(super) fn correlation(first: &Series, second: &Series, places: Range<usize>) -> Result<Option<f64>> {
    spend(places.len().saturating_mul(2))?;
    let both = || {
        let pairs = first.values.part(places.clone()).zip(second.values.part(places.clone()));
        pairs.filter_map(|(a, b)| a.zip(b))
    };
    let (mut count, mut sum_a, mut sum_b) = (0.0, 0.0, 0.0);
    for (a, b) in both() {
        (count, sum_a, sum_b) = (count + 1.0, sum_a + a, sum_b + b);
    }
    let (mean_a, mean_b) = (sum_a / count, sum_b / count);
    let (mut product, mut square_a, mut square_b) = (0.0, 0.0, 0.0);
    for (a, b) in both() {
        let (a, b) = (a - mean_a, b - mean_b);
        (product, square_a, square_b) = (product + a * b, square_a + a * a, square_b + b * b);
    }
    let coefficient: f64 = product / (f64::sqrt(square_a) * f64::sqrt(square_b));
    Ok((!coefficient.is_nan()).then_some(coefficient))
}
