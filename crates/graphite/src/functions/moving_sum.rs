//! `movingSum`: computes the sum over a sliding window.

use futures_util::FutureExt;

use super::moving::moving;
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "movingSum",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("windowSize", Kind::IntOrInterval),
        optional("xFilesFactor", Kind::Float),
    ],
    doc: "Computes the sum over a sliding window.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(again: Again<'_>) -> Result<Vec<Series>> {
    let share = again.call.maybe_float(2)?;
    moving(again, "sum", share).await
}
