//! `isNonNull`: returns 1 where a series has a value, else 0.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "isNonNull",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Returns 1 where a series has a value, else 0.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    for series in &mut list {
        series.tags.set("isNonNull", 1);
        series.rename(format!("isNonNull({})", series.name));
        series.values.map(|value| Some(f64::from(u8::from(value.is_some()))))?;
        series.values = std::mem::take(&mut series.values).of_integers();
    }
    Ok(list)
}
