//! `time`: creates a series whose values are their timestamps in local time.

use super::same_steps::same_steps;
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "time",
    aliases: &["timeFunction"],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("name", Kind::Text), optional("step", Kind::Integer).or(Preset::Int(60))],
    doc: "Creates a series whose values are their timestamps in local time.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (name, step) = (call.text(0)?, call.integer(1)?);
    let steps = same_steps(&call.scope, step)?;
    let (start, end) = (call.scope.from.wall(), call.scope.until.wall());
    let values = Column::collect(steps, (0..steps as i64).map(|place| Some((start + place * step) as f64)))?;
    Ok(vec![Series::new(name, start, end, step, values).with_share(call.scope.x_files_factor())])
}
