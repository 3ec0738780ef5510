//! `logit`: computes the logit of each point between 0 and 1.

use super::series_of::transform;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "logit",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Computes the logit of each point between 0 and 1.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    list.iter_mut().for_each(|series| series.tags.set("logit", "logit"));
    transform(
        list,
        |name| format!("logit({name})"),
        |value| {
            let odds = value / (1.0 - value);
            Ok((value != 1.0 && (odds > 0.0 || odds.is_nan())).then(|| odds.ln()))
        },
    )
}
