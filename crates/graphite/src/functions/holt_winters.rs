//! Triple exponential smoothing (Holt-Winters): forecasts and deviations.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::attime::parse_offset;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::Again;
use crate::parameter::{Kind, Parameter, Preset, optional, required};
use crate::series::Series;
use crate::tags::Tags;

const ALPHA: f64 = 0.1;
const GAMMA: f64 = 0.1;
const BETA: f64 = 0.0035;

/// The parameters of the functions with confidence bands.
pub(super) const PARAMETERS: [Parameter; 4] = [
    required("seriesList", Kind::SeriesList),
    optional("delta", Kind::Integer).or(Preset::Int(3)),
    optional("bootstrapInterval", Kind::Interval).or(Preset::Text("7d")),
    optional("seasonality", Kind::Interval).or(Preset::Text("1d")),
];

/// The forecast and the deviations of a series after the bootstrap interval.
pub(super) struct Analysis {
    pub(super) series: Series,
    pub(super) forecast: Column,
    pub(super) deviation: Column,
    pub(super) start: i64,
}

/// The values of the last season.
struct Season {
    length: usize,
    values: VecDeque<f64>,
}

impl Season {
    fn new(length: usize) -> Self {
        Self { length, values: VecDeque::new() }
    }

    /// The value one season before the place that is `ahead` of the next one; 0 if there is none.
    fn before(&self, ahead: usize) -> f64 {
        match self.values.len() + ahead >= self.length {
            true => self.values.get(self.values.len() + ahead - self.length).copied().unwrap_or(0.0),
            false => 0.0,
        }
    }

    fn push(&mut self, value: f64) {
        self.values.push_back(value);
        if self.values.len() > self.length {
            self.values.pop_front();
        }
    }
}

/// The forecast and the deviations at all places.
fn smooth(series: &Series, season: usize) -> Result<(Column, Column)> {
    let mut forecast = Column::with_room(series.values.len())?;
    let mut deviations = Column::with_room(series.values.len())?;
    let _held = sandur_base::job::reserve_exactly(16 * season.min(series.values.len()) as u64)?;
    let (mut seasonals, mut strays) = (Season::new(season), Season::new(season));
    let (mut intercept, mut slope, mut next): (Option<f64>, f64, Option<f64>) = (None, 0.0, None);
    for (place, actual) in series.points().enumerate() {
        let Some(actual) = actual else {
            forecast.push(next.take());
            deviations.push(Some(0.0));
            seasonals.push(0.0);
            strays.push(0.0);
            (intercept, slope) = (None, 0.0);
            continue;
        };
        let expected = if place == 0 { Some(actual) } else { next };
        let before = intercept.unwrap_or(actual);
        let seasonal = seasonals.before(0);
        let now = ALPHA * (actual - seasonal) + (1.0 - ALPHA) * (before + slope);
        slope = BETA * (now - before) + (1.0 - BETA) * slope;
        next = Some(now + slope + seasonals.before(1));
        let stray = GAMMA * (actual - expected.unwrap_or(0.0)).abs() + (1.0 - GAMMA) * strays.before(0);
        intercept = Some(now);
        seasonals.push(GAMMA * (actual - now) + (1.0 - GAMMA) * seasonal);
        strays.push(stray);
        forecast.push(expected);
        deviations.push(Some(stray));
    }
    Ok((forecast, deviations))
}

/// Analyses the first argument, evaluated from an earlier time by the bootstrap interval.
pub(super) async fn analysis(
    again: &Again<'_>,
    bootstrap: &str,
    seasonality: &str,
) -> Result<(Vec<Series>, i64, i64)> {
    let preview = parse_offset(bootstrap)?;
    let season = parse_offset(seasonality)?;
    if preview < 0 || season < 0 {
        return Err(Error::invalid("the bootstrap interval and the season must not be below zero"));
    }
    let scope = again.call.scope.begun_earlier(preview);
    Ok((again.first_in(&scope).await?, preview, season))
}

/// Analyses one series.
pub(super) fn analyse(mut series: Series, preview: i64, season: i64) -> Result<Analysis> {
    let step = series.step.max(1);
    let season = usize::try_from(season / step).unwrap_or(usize::MAX).max(2);
    let (mut forecast, mut deviation) = smooth(&series, season)?;
    let learned = usize::try_from(preview / step).unwrap_or(usize::MAX);
    forecast.drop_first(learned);
    deviation.drop_first(learned);
    series.tags.set("holtWintersForecast", 1);
    series.tags.set("holtWintersDeviation", 1);
    let start = series.start.saturating_add(preview);
    Ok(Analysis { series, forecast, deviation, start })
}

/// The lower and the upper confidence band of each series.
pub(super) fn bands(list: Vec<Series>, delta: f64, preview: i64, season: i64) -> Result<Vec<Series>> {
    let mut results = Vec::with_capacity(list.len() * 2);
    for series in list {
        let found = analyse(series, preview, season)?;
        let mut tags = found.series.tags.clone();
        tags.set("holtWintersConfidenceUpper", 1);
        tags.set("holtWintersConfidenceLower", 1);
        results.push(band(&found, -delta, "holtWintersConfidenceLower", &tags)?);
        results.push(band(&found, delta, "holtWintersConfidenceUpper", &tags)?);
    }
    Ok(results)
}

fn band(found: &Analysis, delta: f64, name: &str, tags: &Tags) -> Result<Series> {
    let strayed = found.forecast.iter().zip(found.deviation.iter());
    let values = strayed.map(|(expected, stray)| Some(expected? + delta * stray?));
    let values = Column::collect(found.forecast.len(), values)?;
    let series = &found.series;
    let name = format!("{name}({})", series.name);
    let times = (found.start, series.end, series.step);
    let mut made = Series::tagged(name, tags.clone(), times, values).with_share(series.x_files_factor);
    made.path_expression = Arc::clone(&series.path_expression);
    Ok(made)
}
