//! `squareRoot`: computes the square root of each point.

use super::series_of::transform;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "squareRoot",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Computes the square root of each point.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    list.iter_mut().for_each(|series| series.tags.set("squareRoot", 1));
    transform(list, |name| format!("squareRoot({name})"), |value| Ok(super::power::power(value, 0.5)))
}
