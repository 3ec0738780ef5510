//! `threshold`: draws a horizontal line at a value, with an optional label and colour.

use super::constant_line::constant;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "threshold",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("value", Kind::Float),
        optional("label", Kind::Text),
        optional("color", Kind::Text),
    ],
    doc: "Draws a horizontal line at a value, with an optional label and colour.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (value, label, color) = (call.number(0)?, call.maybe_text(1)?, call.maybe_text(2)?);
    let mut series = constant(&call.scope, Some(value.value()), value.to_string())?;
    series.path_expression = format!("constantLine({value})").into();
    if let Some(label) = label.filter(|label| !label.is_empty()) {
        series.name = label;
    }
    series.color = color.filter(|color| !color.is_empty());
    Ok(vec![series])
}
