//! `round`: rounds each point to a number of decimal places.

use super::series_of::transform;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::number::{Number, general};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "round",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("precision", Kind::Integer).or(Preset::Int(0)),
    ],
    doc: "Rounds each point to a number of decimal places.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, precision) = (call.series()?, call.maybe_number(1)?.filter(|_| call.has(1)));
    let digits = precision.map_or(0.0, Number::value);
    let shown = precision.map(|precision| format!(",{}", general(precision.value()))).unwrap_or_default();
    list.iter_mut().for_each(|series| series.tags.set("round", format!("{digits:.0}")));
    transform(
        list,
        |name| format!("round({name}{shown})"),
        |value| Ok(Some(crate::number::round(value, digits as i64))),
    )
}
