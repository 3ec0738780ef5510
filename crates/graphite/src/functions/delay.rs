//! `delay`: shifts values by a number of steps, to later ones if it is positive.

use super::series_of::replace_values;
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "delay",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("steps", Kind::Integer)],
    doc: "Shifts values by a number of steps, to later ones if it is positive.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, steps) = (call.series()?, call.integer(1)?);
    replace_values(list, |series| {
        series.tags.set("delay", steps);
        let values = &series.values;
        let length = values.len();
        let moved = usize::try_from(steps.unsigned_abs()).unwrap_or(usize::MAX).min(length);
        let missing = std::iter::repeat_n(None, moved);
        let delayed = match steps {
            0 => Column::default(),
            ..0 => Column::collect(length, values.part(moved..length).chain(missing))?,
            _ => Column::collect(length, missing.chain(values.part(0..length - moved)))?,
        };
        Ok((format!("delay({},{steps})", series.name), delayed))
    })
}
