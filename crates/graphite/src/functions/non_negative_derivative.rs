//! `nonNegativeDerivative`: computes the increase of a counter from each value to the next, with
//! detection of wraparounds and resets.

use super::nonnegative::nonnegative_delta;
use super::series_of::replace_values;
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "nonNegativeDerivative",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("maxValue", Kind::Float),
        optional("minValue", Kind::Float),
    ],
    doc: "Computes the increase of a counter from each value to the next, with detection of \
          wraparounds and resets.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, most, least) = (call.series()?, call.maybe_float(1)?, call.maybe_float(2)?);
    replace_values(list, |series| {
        let mut before = None;
        let deltas = series.points().map(|value| {
            let (delta, next) = nonnegative_delta(value, before, most, least);
            before = next;
            delta
        });
        let values = Column::collect(series.values.len(), deltas)?;
        series.tags.set("nonNegativeDerivative", 1);
        Ok((format!("nonNegativeDerivative({})", series.name), values))
    })
}
