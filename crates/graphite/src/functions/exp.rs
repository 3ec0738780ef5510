//! `exp`: computes the exponential of each point.

use super::series_of::transform;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "exp",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Computes the exponential of each point.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    list.iter_mut().for_each(|series| series.tags.set("exp", "e"));
    transform(
        list,
        |name| format!("exp({name})"),
        |value| match value.exp() {
            f64::INFINITY if value.is_finite() => {
                Err(Error::invalid(format!("the exponential of {value} is too large")))
            }
            power => Ok(Some(power)),
        },
    )
}
