//! `holtWintersForecast`: computes the Holt-Winters forecast of each series.

use futures_util::FutureExt;

use super::holt_winters::{analyse, analysis};
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "holtWintersForecast",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("bootstrapInterval", Kind::Interval).or(Preset::Text("7d")),
        optional("seasonality", Kind::Interval).or(Preset::Text("1d")),
    ],
    doc: "Computes the Holt-Winters forecast of each series.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let (bootstrap, season) = (again.call.text(1)?, again.call.text(2)?);
    let (found, preview, season) = analysis(&again, &bootstrap, &season).await?;
    again
        .compute(move || {
            let one = |series: Series| {
                let found = analyse(series, preview, season)?;
                let series = found.series;
                let name = format!("holtWintersForecast({})", series.name);
                let times = (found.start, series.end, series.step);
                Ok(Series::tagged(name, series.tags, times, found.forecast).with_share(series.x_files_factor))
            };
            found.into_iter().map(one).collect()
        })
        .await
}
