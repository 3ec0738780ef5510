//! `scaleToSeconds`: converts a value per step to a value per number of seconds.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::number::{round, whole};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "scaleToSeconds",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("seconds", Kind::Float)],
    doc: "Converts a value per step to a value per number of seconds.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, seconds) = (call.series()?, call.number(1)?);
    let wrong = || Error::invalid(format!("scaleToSeconds does not accept {seconds}"));
    let shown = whole(seconds.value()).ok_or_else(wrong)?;
    for series in &mut list {
        series.tags.set("scaleToSeconds", seconds);
        series.rename(format!("scaleToSeconds({},{shown})", series.name));
        let factor = seconds.value() / series.step as f64;
        series.values.map_values(|value| Some(round(value * factor, 6)))?;
    }
    Ok(list)
}
