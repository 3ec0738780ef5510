//! `constantLine`: draws a horizontal line at a value.

use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::scope::Scope;
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "constantLine",
    aliases: &[],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("value", Kind::Float)],
    doc: "Draws a horizontal line at a value.",
    body: Body::Series(run),
};

fn run(call: Call) -> Result<Vec<Series>> {
    let value = call.number(0)?;
    let mut series = constant(&call.scope, Some(value.value()), value.to_string())?;
    series.path_expression = format!("constantLine({value})").into();
    Ok(vec![series])
}

/// A series of three points with the same value over the requested time.
pub(super) fn constant(scope: &Scope, value: Option<f64>, name: String) -> Result<Series> {
    let (start, end) = (scope.from.epoch, scope.until.epoch);
    let step = (end - start) / 2;
    Ok(Series::new(name, start, end, step, Column::filled(value, 3)?).with_share(scope.x_files_factor()))
}
