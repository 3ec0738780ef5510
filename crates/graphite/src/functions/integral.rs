//! `integral`: computes the running sum.

use super::series_of::replace_values;
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "integral",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Computes the running sum.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    replace_values(call.series()?, |series| {
        let mut sum = 0.0;
        let sums = series.points().map(|value| {
            value.map(|value| {
                sum += value;
                sum
            })
        });
        let values = Column::collect(series.values.len(), sums)?;
        series.tags.set("integral", 1);
        Ok((format!("integral({})", series.name), values))
    })
}
