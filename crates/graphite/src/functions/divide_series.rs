//! `divideSeries`: divides each series by one divisor series.

use crate::call::Call;
use crate::combine::quotient;
use crate::combine::{Grid, normalize, pairs};
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "divideSeries",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("dividendSeriesList", Kind::SeriesList),
        required("divisorSeries", Kind::SeriesList),
    ],
    doc: "Divides each series by one divisor series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, mut divisors) = (call.list(0)?, call.list(1)?);
    let divisor = match divisors.as_mut_slice() {
        [] => {
            for series in &mut list {
                series.rename(format!("divideSeries({},MISSING)", series.name));
                series.values.map(|_| None)?;
            }
            return Ok(list);
        }
        [divisor] => divisor,
        more => {
            let count = more.len();
            let message =
                format!("divideSeries second argument must reference exactly 1 series (got {count})");
            return Err(Error::invalid(message));
        }
    };
    let share = call.scope.x_files_factor();
    list.iter_mut().map(|series| divided(series, divisor, share)).collect()
}

/// Divides one series by another.
pub(super) fn divided(dividend: &mut Series, divisor: &mut Series, share: f64) -> Result<Series> {
    let name = format!("divideSeries({},{})", dividend.name, divisor.name);
    let grid = normalize([&mut *dividend, &mut *divisor])?;
    let (start, end, step) = grid.map(Grid::times).unwrap_or_default();
    let values = pairs(dividend, divisor, quotient)?;
    Ok(Series::new(name, start, end, step, values).with_share(share))
}
