//! `linearRegression`: computes the linear regression of each series, over the requested time or another
//! one.

use futures_util::FutureExt;

use sandur_base::job::spend;

use crate::attime::parse_time;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;
use crate::zone::{Moment, Zone};

pub(super) const FUNCTION: Function = Function {
    name: "linearRegression",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("startSourceAt", Kind::Date),
        optional("endSourceAt", Kind::Date),
    ],
    doc: "Computes the linear regression of each series, over the requested time or another one.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let (list, begin, end) = (again.call.series()?, again.call.maybe_text(1)?, again.call.maybe_text(2)?);
    let scope = &again.call.scope;
    let time = |text: Option<String>, instead: Moment| match text {
        Some(text) => parse_time(&text, &Zone::utc(), scope.now),
        None => Ok(instead),
    };
    let source = scope.shifted(time(begin, scope.from)?, time(end, scope.until)?);
    let sources = again.first_in(&source).await?;
    let (from, until) = (source.from.wall(), source.until.wall());
    again
        .compute(move || {
            let mut results = Vec::new();
            for (source, mut series) in sources.into_iter().zip(list) {
                series.tags.set("linearRegressions", format!("{from}, {until}"));
                let name = format!("linearRegression({}, {from}, {until})", series.name);
                let Some((factor, offset)) = regression(&source)? else { continue };
                let time = |place: usize| (series.start + place as i64 * series.step) as f64;
                let count = series.values.len();
                let values =
                    Column::collect(count, (0..count).map(|place| Some(offset + time(place) * factor)))?;
                let times = (series.start, series.end, series.step);
                results
                    .push(Series::tagged(name, series.tags, times, values).with_share(series.x_files_factor));
            }
            Ok(results)
        })
        .await
}

/// The slope per second, and the value at time 0.
fn regression(series: &Series) -> Result<Option<(f64, f64)>> {
    spend(series.values.len())?;
    let (mut n, mut sum_i, mut sum_ii, mut sum_v, mut sum_iv) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (place, value) in series.points().enumerate() {
        let (Some(value), place) = (value, place as f64) else { continue };
        n += 1.0;
        sum_i += place;
        sum_ii += place * place;
        sum_v += value;
        sum_iv += place * value;
    }
    let denominator = n * sum_ii - sum_i * sum_i;
    if denominator == 0.0 {
        return Ok(None);
    }
    let factor = (n * sum_iv - sum_i * sum_v) / denominator / series.step as f64;
    Ok(Some((factor, (sum_ii * sum_v - sum_iv * sum_i) / denominator - factor * series.start as f64)))
}
