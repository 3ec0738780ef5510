//! `sigmoid`: computes the sigmoid of each point.

use super::series_of::transform;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "sigmoid",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Computes the sigmoid of each point.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    list.iter_mut().for_each(|series| series.tags.set("sigmoid", "sigmoid"));
    transform(
        list,
        |name| format!("sigmoid({name})"),
        |value| match (-value).exp() {
            f64::INFINITY if value.is_finite() => {
                Err(Error::invalid(format!("the sigmoid of {value} is too small")))
            }
            power => Ok(Some(1.0 / (1.0 + power))),
        },
    )
}
