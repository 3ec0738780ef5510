//! `movingWindow`: computes an aggregate over a sliding window.

use futures_util::FutureExt;

use super::moving::moving;
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "movingWindow",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("windowSize", Kind::IntOrInterval),
        optional("func", Kind::AggFunc).or(Preset::Text("average")),
        optional("xFilesFactor", Kind::Float),
    ],
    doc: "Computes an aggregate over a sliding window.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let (function, share) = (again.call.text(2)?, again.call.maybe_float(3)?);
    moving(again, &function, share).await
}
