//! `integralWithReset`: computes the running sum, which restarts where another series is not 0.

use super::correlation::only;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "integralWithReset",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("resettingSeries", Kind::SeriesList)],
    doc: "Computes the running sum, which restarts where another series is not 0.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let list = call.series()?;
    let reset = only(call.list(1)?, "integralWithReset")?;
    let one = |mut series: Series| {
        if (series.step, series.values.len()) != (reset.step, reset.values.len()) {
            let (own, other) = (&series.name, &reset.name);
            return Err(Error::invalid(format!("series {own} must have the same length as {other}")));
        }
        let (mut sum, mut resets) = (0.0, reset.points());
        series.values.map(|value| {
            let is_reset = resets.next().flatten().is_some_and(|reset| reset != 0.0);
            let value = value?;
            sum = if is_reset { 0.0 } else { sum + value };
            Some(sum)
        })?;
        series.rename(format!("integralWithReset({},{})", series.name, reset.name));
        Ok(series)
    };
    list.into_iter().map(one).collect()
}
