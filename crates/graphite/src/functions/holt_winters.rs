//! Triple exponential smoothing (Holt-Winters): forecasts, confidence bands and aberrations.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt;

use super::drawing::area_between;
use crate::attime::parse_offset;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::group::Group;
use crate::parameter::{Kind, Parameter, Preset, SERIES, optional};
use crate::series::Series;
use crate::tags::Tags;

const BASE: Function = Function {
    name: "holtWintersAberration",
    parameters: &[SERIES, optional("delta", Kind::Integer).or(Preset::Int(3)), BOOTSTRAP, SEASON],
    doc: "Computes how far each series deviates beyond its Holt-Winters confidence bands.",
    body: Body::EvaluatingCall(|again| aberration(again).boxed()),
    ..Function::of(Group::Calculate)
};

const BOOTSTRAP: Parameter = optional("bootstrapInterval", Kind::Interval).or(Preset::Text("7d"));
const SEASON: Parameter = optional("seasonality", Kind::Interval).or(Preset::Text("1d"));

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "holtWintersConfidenceArea",
        doc: "Draws the area between the Holt-Winters confidence bands of a series.",
        body: Body::EvaluatingCall(|again| confidence_area(again).boxed()),
        ..BASE
    },
    Function {
        name: "holtWintersConfidenceBands",
        doc: "Computes the lower and upper Holt-Winters confidence bands of each series.",
        body: Body::EvaluatingCall(|again| confidence_bands(again).boxed()),
        ..BASE
    },
    Function {
        name: "holtWintersForecast",
        parameters: &[SERIES, BOOTSTRAP, SEASON],
        doc: "Computes the Holt-Winters forecast of each series.",
        body: Body::EvaluatingCall(|again| forecast(again).boxed()),
        ..BASE
    },
];

async fn aberration(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let (list, delta) = (again.call.series()?, again.call.float(1)?);
    let history = History::of(&mut again, 2).await?;
    again
        .compute(move || {
            let bands = history.bands(delta)?;
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

async fn confidence_area(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let (delta, history) = (again.call.float(1)?, History::of(&mut again, 2).await?);
    again
        .compute(move || {
            let mut list = area_between(history.bands(delta)?)?;
            for series in &mut list {
                series.tags.remove("areaBetween");
                series.tags.set("holtWintersConfidenceArea", 1);
                series.rename(series.name.replace("areaBetween", "holtWintersConfidenceArea"));
            }
            Ok(list)
        })
        .await
}

async fn confidence_bands(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let (delta, history) = (again.call.float(1)?, History::of(&mut again, 2).await?);
    again.compute(move || history.bands(delta)).await
}

async fn forecast(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let history = History::of(&mut again, 1).await?;
    again
        .compute(move || {
            let one = |found: Result<Analysis>| {
                let found = found?;
                let series = found.series;
                let name = format!("holtWintersForecast({})", series.name);
                let times = (found.start, series.end, series.step);
                Ok(Series::tagged(name, series.tags, times, found.forecast).with_share(series.x_files_factor))
            };
            history.analyses().map(one).collect()
        })
        .await
}

const ALPHA: f64 = 0.1;
const GAMMA: f64 = 0.1;
const BETA: f64 = 0.0035;

/// The forecast and the deviations of a series after the bootstrap interval.
struct Analysis {
    series: Series,
    forecast: Column,
    deviation: Column,
    start: i64,
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
    let _held = sandur_memory::job::reserve_exactly(16 * season.min(series.values.len()) as u64)?;
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

/// The first argument, evaluated from an earlier time by the bootstrap interval.
struct History {
    list: Vec<Series>,
    preview: i64,
    season: i64,
}

impl History {
    /// Reads the bootstrap interval from the parameter at `place`, and the season from the next one.
    async fn of(again: &mut EvaluatingCall<'_>, place: usize) -> Result<Self> {
        let (bootstrap, season) = (again.call.text(place)?, again.call.text(place + 1)?);
        let (preview, season) = (parse_offset(&bootstrap)?, parse_offset(&season)?);
        if preview < 0 || season < 0 {
            return Err(Error::invalid("the bootstrap interval and the season must not be below zero"));
        }
        let scope = again.call.scope.begun_earlier(preview);
        Ok(Self { list: again.first_in(&scope).await?, preview, season })
    }

    /// The analysis of each series.
    fn analyses(self) -> impl Iterator<Item = Result<Analysis>> {
        self.list.into_iter().map(move |series| analyse(series, self.preview, self.season))
    }

    /// The lower and the upper confidence band of each series.
    fn bands(self, delta: f64) -> Result<Vec<Series>> {
        let mut results = Vec::with_capacity(self.list.len() * 2);
        for found in self.analyses() {
            let found = found?;
            let mut tags = found.series.tags.clone();
            tags.set("holtWintersConfidenceUpper", 1);
            tags.set("holtWintersConfidenceLower", 1);
            results.push(band(&found, -delta, "holtWintersConfidenceLower", &tags)?);
            results.push(band(&found, delta, "holtWintersConfidenceUpper", &tags)?);
        }
        Ok(results)
    }
}

fn analyse(mut series: Series, preview: i64, season: i64) -> Result<Analysis> {
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
