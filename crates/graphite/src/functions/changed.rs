//! `changed`: returns 1 where a value differs from the previous one, else 0.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "changed",
    aliases: &[],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Returns 1 where a value differs from the previous one, else 0.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    for series in &mut list {
        series.rename(format!("changed({})", series.name));
        let mut before: Option<f64> = None;
        let mut values = std::mem::take(&mut series.values);
        values.map(|value| {
            let is_other = before.is_some_and(|before| value.is_some_and(|value| value != before));
            if before.is_none() || is_other {
                before = value;
            }
            Some(f64::from(u8::from(is_other)))
        })?;
        series.values = values.of_integers();
    }
    Ok(list)
}
