//! `holtWintersAberration`: computes how far each series deviates beyond its Holt-Winters confidence
//! bands.

use futures_util::FutureExt;

use super::holt_winters::{PARAMETERS, analysis, bands};
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Again, Body, Function, Group, Origin};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "holtWintersAberration",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "Computes how far each series deviates beyond its Holt-Winters confidence bands.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let (list, delta) = (again.call.series()?, again.call.float(1)?);
    let (bootstrap, season) = (again.call.text(2)?, again.call.text(3)?);
    let (found, preview, season) = analysis(&again, &bootstrap, &season).await?;
    again
        .compute(move || {
            let bands = bands(found, delta, preview, season)?;
            let named = |name: String| {
                let band = bands.iter().rev().find(|band| band.name == name);
                band.ok_or_else(|| Error::invalid(format!("there is no {name}")))
            };
            let one = |mut series: Series| {
                let lower = named(format!("holtWintersConfidenceLower({})", series.name))?;
                let upper = named(format!("holtWintersConfidenceUpper({})", series.name))?;
                if series.points().skip(lower.values.len()).any(|value| value.is_some()) {
                    return Err(Error::invalid(format!("the history of {} is too short", series.name)));
                }
                let strays = series.points().enumerate().map(|(place, actual)| {
                    let beyond = |bound: Option<f64>, is_above| {
                        let beyond = actual? - bound?;
                        (if is_above { actual > bound } else { actual < bound }).then_some(beyond)
                    };
                    let above = beyond(upper.values.get(place), true);
                    above.or_else(|| beyond(lower.values.get(place), false)).or(Some(0.0))
                });
                let values = Column::collect(series.values.len(), strays)?;
                series.tags.set("holtWintersAberration", 1);
                let name = format!("holtWintersAberration({})", series.name);
                let times = (series.start, series.end, series.step);
                Ok(Series::tagged(name, series.tags, times, values).with_share(series.x_files_factor))
            };
            list.into_iter().map(one).collect()
        })
        .await
}
