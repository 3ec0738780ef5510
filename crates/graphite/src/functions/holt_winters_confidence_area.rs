//! `holtWintersConfidenceArea`: draws the area between the Holt-Winters confidence bands of a series.

use futures_util::FutureExt;

use super::area_between::area_between;
use super::holt_winters::{PARAMETERS, analysis, bands};
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "holtWintersConfidenceArea",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "Draws the area between the Holt-Winters confidence bands of a series.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let (delta, bootstrap, season) = (again.call.float(1)?, again.call.text(2)?, again.call.text(3)?);
    let (found, preview, season) = analysis(&again, &bootstrap, &season).await?;
    again
        .compute(move || {
            let mut list = area_between(bands(found, delta, preview, season)?)?;
            for series in &mut list {
                series.tags.remove("areaBetween");
                series.tags.set("holtWintersConfidenceArea", 1);
                series.rename(series.name.replace("areaBetween", "holtWintersConfidenceArea"));
            }
            Ok(list)
        })
        .await
}
