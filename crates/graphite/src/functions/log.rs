//! `log`: computes the logarithm of each point above 0.

use super::series_of::replace_values;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "log",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("base", Kind::Integer).or(Preset::Int(10)),
    ],
    doc: "Computes the logarithm of each point above 0.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, base) = (call.series()?, call.number(1)?);
    let divisor = base.value().ln();
    let is_wrong = base.value() <= 0.0 || divisor == 0.0;
    replace_values(list, |series| {
        if is_wrong && series.points().flatten().any(|value| value > 0.0) {
            return Err(Error::invalid(format!("the base {base} has no logarithm")));
        }
        let logarithm =
            |value: Option<f64>| value.filter(|value| *value > 0.0).map(|value| value.ln() / divisor);
        let values = Column::collect(series.values.len(), series.points().map(logarithm))?;
        series.tags.set("log", base);
        Ok((format!("log({}, {base})", series.name), values))
    })
}
