//! `derivative`: computes the difference of each value from the previous one.

use super::series_of::replace_values;
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "derivative",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Computes the difference of each value from the previous one.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    replace_values(call.series()?, |series| {
        let mut before = None;
        let deltas = series.points().map(|value| {
            let delta = value.zip(before).map(|(value, before): (f64, f64)| value - before);
            before = value;
            delta
        });
        let values = Column::collect(series.values.len(), deltas)?;
        series.tags.set("derivative", 1);
        Ok((format!("derivative({})", series.name), values))
    })
}
