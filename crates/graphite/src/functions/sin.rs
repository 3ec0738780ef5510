//! `sin`: creates a series with the sine of the timestamps.

use super::same_steps::same_steps;
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "sin",
    aliases: &["sinFunction"],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("name", Kind::Text),
        optional("amplitude", Kind::Float).or(Preset::Int(1)),
        optional("step", Kind::Integer).or(Preset::Int(60)),
    ],
    doc: "Creates a series with the sine of the timestamps.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (name, amplitude, step) = (call.text(0)?, call.float(1)?, call.integer(2)?);
    let steps = same_steps(&call.scope, step)?;
    let begin = call.scope.from.wall();
    let sines = (0..steps as i64).map(|place| Some(((begin + place * step) as f64).sin() * amplitude));
    let values = Column::collect(steps, sines)?;
    let (start, end) = (call.scope.from.epoch, call.scope.until.epoch);
    Ok(vec![Series::new(name, start, end, step, values).with_share(call.scope.x_files_factor())])
}
