//! `holtWintersConfidenceBands`: computes the lower and upper Holt-Winters confidence bands of each
//! series.

use futures_util::FutureExt;

use super::holt_winters::{PARAMETERS, analysis, bands};
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "holtWintersConfidenceBands",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "Computes the lower and upper Holt-Winters confidence bands of each series.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let (delta, bootstrap, season) = (again.call.float(1)?, again.call.text(2)?, again.call.text(3)?);
    let (found, preview, season) = analysis(&again, &bootstrap, &season).await?;
    again.compute(move || bands(found, delta, preview, season)).await
}
