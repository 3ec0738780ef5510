//! `identity`: creates a series whose values are their timestamps.

use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "identity",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("name", Kind::Text)],
    doc: "Creates a series whose values are their timestamps.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let name = call.text(0)?;
    let (start, end) = (call.scope.from.epoch, call.scope.until.epoch);
    let count = usize::try_from(end - start).unwrap_or(0).div_ceil(60);
    let times = (start..end).step_by(60).map(|time| Some(time as f64));
    let values = Column::collect(count, times)?.of_integers();
    let path_expression = format!("identity(\"{name}\")").into();
    let series = Series::new(name, start, end, 60, values).with_share(call.scope.x_files_factor());
    Ok(vec![Series { path_expression, ..series }])
}
