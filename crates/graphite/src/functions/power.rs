//! `pow`: raises each point to a power.

use super::series_of::transform;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "pow",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("factor", Kind::Float)],
    doc: "Raises each point to a power.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, factor) = (call.series()?, call.number(1)?);
    list.iter_mut().for_each(|series| series.tags.set("pow", factor));
    let shown = general(factor.value());
    transform(list, |name| format!("pow({name},{shown})"), |value| Ok(power(value, factor.value())))
}

/// The power, if it is defined and finite.
pub(super) fn power(base: f64, exponent: f64) -> Option<f64> {
    let power = base.powf(exponent);
    let is_wrong = (power.is_nan() || power.is_infinite()) && base.is_finite() && exponent.is_finite();
    (!is_wrong).then_some(power)
}
