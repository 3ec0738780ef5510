//! `removeAboveValue`: removes the values above a threshold.

use super::series_of::transform;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "removeAboveValue",
    aliases: &[],
    group: Group::FilterData,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("n", Kind::Float)],
    doc: "Removes the values above a threshold.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.float(1)?);
    let shown = general(n);
    let keep = |value: f64| Ok((value <= n || value.is_nan()).then_some(value));
    transform(list, |name| format!("removeAboveValue({name}, {shown})"), keep)
}
