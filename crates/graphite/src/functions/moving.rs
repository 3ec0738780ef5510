//! Aggregates and averages over a sliding window.

use futures_util::FutureExt;
use sandur_memory::job::spend;

use super::series_of::replace_values;
use crate::aggregation::{Aggregation, is_enough};
use crate::attime::parse_offset;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::group::{Group, Origin};
use crate::number::{Number, round};
use crate::parameter::{Argument, Kind, Parameter, Preset, SERIES, optional, required};
use crate::series::Series;

const BASE: Function = Function {
    name: "movingAverage",
    parameters: &[SERIES, WINDOW, SHARE],
    doc: "Computes the average over a sliding window.",
    body: Body::EvaluatingCall(|again| moving_by(again, "average").boxed()),
    ..Function::of(Group::Calculate)
};

const WINDOW: Parameter = required("windowSize", Kind::IntOrInterval);
const SHARE: Parameter = optional("xFilesFactor", Kind::Float);

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "movingMax",
        doc: "Computes the maximum over a sliding window.",
        body: Body::EvaluatingCall(|again| moving_by(again, "max").boxed()),
        ..BASE
    },
    Function {
        name: "movingMedian",
        doc: "Computes the median over a sliding window.",
        body: Body::EvaluatingCall(|again| moving_by(again, "median").boxed()),
        ..BASE
    },
    Function {
        name: "movingMin",
        doc: "Computes the minimum over a sliding window.",
        body: Body::EvaluatingCall(|again| moving_by(again, "min").boxed()),
        ..BASE
    },
    Function {
        name: "movingSum",
        doc: "Computes the sum over a sliding window.",
        body: Body::EvaluatingCall(|again| moving_by(again, "sum").boxed()),
        ..BASE
    },
    Function {
        name: "movingWindow",
        parameters: &[SERIES, WINDOW, optional("func", Kind::AggFunc).or(Preset::Text("average")), SHARE],
        doc: "Computes an aggregate over a sliding window.",
        body: Body::EvaluatingCall(|again| moving_window(again).boxed()),
        ..BASE
    },
    Function {
        name: "ewma",
        aliases: &["exponentialWeightedMovingAverage"],
        origin: Origin::Carbonapi,
        parameters: &[SERIES, required("alpha", Kind::Float)],
        doc: "Computes the exponentially weighted moving average, in which each new value has the weight \
              `alpha`.",
        body: Body::Series(ewma),
        ..BASE
    },
    Function {
        name: "exponentialMovingAverage",
        parameters: &[SERIES, WINDOW],
        doc: "Computes the exponential moving average, with the weight `2 / (windowSize + 1)` for each \
              new value.",
        body: Body::EvaluatingCall(|again| exponential_moving_average(again).boxed()),
        ..BASE
    },
    BASE.named("stdev", "Computes the standard deviation over a sliding window of `points` points.", stdev)
        .taking(&[
            SERIES,
            required("points", Kind::Integer),
            optional("windowTolerance", Kind::Float).or(Preset::Float(0.1)),
        ]),
];

async fn moving_by(again: EvaluatingCall<'_>, function: &str) -> Result<Vec<Series>> {
    let share = again.call.maybe_float(2)?;
    moving(again, function, share).await
}

async fn moving_window(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let (function, share) = (again.call.text(2)?, again.call.maybe_float(3)?);
    moving(again, &function, share).await
}

/// Python's `str.capitalize`, for `'average'.capitalize()`.
fn capitalized(name: &str) -> String {
    let mut chars = name.chars();
    let first = chars.next().map(|character| character.to_ascii_uppercase());
    first.into_iter().chain(chars.map(|character| character.to_ascii_lowercase())).collect()
}

/// Aggregates the window up to each point; the window is the second parameter.
async fn moving(mut again: EvaluatingCall<'_>, function: &str, share: Option<f64>) -> Result<Vec<Series>> {
    let list = again.call.series()?;
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let window = WindowSize::of(again.call.argument(1))?;
    let aggregation = Aggregation::named(function)?;
    let preview = window.preview(&list)?;
    drop(list);
    let scope = again.call.scope.begun_earlier(preview);
    let list = again.first_in(&scope).await?;
    let tag = format!("moving{}", capitalized(function));
    let one = move |mut series: Series| {
        let points = window.points(series.step);
        let share = share.unwrap_or(series.x_files_factor);
        series.tags.set(&tag, window.in_tag());
        let values = windowed(&series, points, aggregation, share)?;
        let name = format!("{tag}({},{})", series.name, window.in_name());
        series.start = series.start.saturating_add(preview);
        Ok(series.derived(name, values))
    };
    again.compute_each(list, one).await
}

fn windowed(series: &Series, points: usize, aggregation: Aggregation, share: f64) -> Result<Column> {
    let count = series.values.len().saturating_sub(points);
    let mut values = Column::with_room(count)?;
    let present_in = |from: usize| usize::from(series.values.get(from).is_some());
    let mut present = series.values.part(0..points).flatten().count();
    for first in 1..=count {
        present = present + present_in(first + points - 1) - present_in(first - 1);
        let value = match is_enough(present, points as f64, share) {
            true => {
                spend(points)?;
                aggregation.of(series.values.part(first..first + points).filter(Option::is_some))
            }
            false => None,
        };
        values.push(value);
    }
    Ok(values)
}

fn ewma(mut call: Call) -> Result<Vec<Series>> {
    let (list, alpha) = (call.series()?, call.float(1)?);
    let one = |mut series: Series| {
        let mut mean: Option<f64> = None;
        series.values.map_values(|value| {
            mean = Some(mean.map_or(value, |mean| alpha * value + (1.0 - alpha) * mean));
            mean
        })?;
        series.rename(format!("ewma({},{alpha})", series.name));
        Ok(series)
    };
    list.into_iter().map(one).collect()
}

async fn exponential_moving_average(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let list = again.call.series()?;
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let window = WindowSize::of(again.call.argument(1))?;
    let preview = window.preview(&list)?;
    drop(list);
    let length = match &window {
        WindowSize::Length(_, seconds) => *seconds as f64,
        WindowSize::Points(number) => number.value().trunc(),
    };
    let constant = 2.0 / (length + 1.0);
    let scope = again.call.scope.begun_earlier(preview);
    let list = again.first_in(&scope).await?;
    let one = move |mut series: Series| {
        let points = window.points(series.step);
        series.tags.set("exponentialMovingAverage", window.in_tag());
        let values = averaged(&series, points, constant)?;
        let name = format!("exponentialMovingAverage({},{})", series.name, window.in_name());
        series.start = series.start.saturating_add(preview);
        Ok(series.derived(name, values))
    };
    again.compute_each(list, one).await
}

fn averaged(series: &Series, points: usize, constant: f64) -> Result<Column> {
    let mut average = Aggregation::Average.of(series.values.part(0..points)).unwrap_or(0.0);
    let mut values = Column::with_room(series.values.len().saturating_sub(points) + 1)?;
    values.push(Some(round(average, 6)));
    for value in series.values.part(points..series.values.len()) {
        if let Some(value) = value {
            average = constant * value + (1.0 - constant) * average;
        }
        values.push(value.map(|_| round(average, 6)));
    }
    Ok(values)
}

fn stdev(mut call: Call) -> Result<Vec<Series>> {
    let (list, points, tolerance) = (call.series()?, call.integer(1)?, call.float(2)?);
    if points < 0 {
        return Err(Error::invalid("stdev needs a number of points that is not below zero"));
    }
    replace_values(list, |series| {
        series.tags.set("stdev", points);
        Ok((format!("stdev({},{points})", series.name), deviations(series, points, tolerance)?))
    })
}

fn deviations(series: &Series, points: i64, tolerance: f64) -> Result<Column> {
    let mut values = Column::with_room(series.values.len())?;
    let (mut valid, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for (place, value) in series.points().enumerate() {
        let dropped = i64::try_from(place).ok().filter(|place| *place >= points);
        let dropped = dropped.and_then(|place| series.values.get(usize::try_from(place - points).ok()?));
        if let Some(dropped) = dropped {
            valid -= 1.0;
            sum -= dropped;
            squares -= dropped * dropped;
        }
        if let Some(value) = value {
            valid += 1.0;
            sum += value;
            squares += value * value;
        }
        let deviation = || Some((valid * squares - sum * sum).sqrt() / valid).filter(|found| !found.is_nan());
        values.push(if valid > 0.0 && valid / points as f64 >= tolerance { deviation() } else { None });
    }
    Ok(values)
}

/// The size of a window.
enum WindowSize {
    /// A duration: its text and its seconds.
    Length(String, i64),
    /// A number of points.
    Points(Number),
}

impl WindowSize {
    fn of(argument: Argument) -> Result<Self> {
        match argument {
            Argument::Text(text) => {
                let seconds = parse_offset(&text)?.abs();
                Ok(Self::Length(text, seconds))
            }
            Argument::Number(number) if number.value() >= 0.0 && number.value() < 1e15 => {
                Ok(Self::Points(number))
            }
            _ => Err(Error::invalid("a window is a number of points or a length of time such as '10min'")),
        }
    }

    fn whole(number: Number) -> i64 {
        number.value() as i64
    }

    /// The seconds by which series must be fetched earlier to fill the first window.
    fn preview(&self, list: &[Series]) -> Result<i64> {
        let longest = list.iter().map(|series| series.step).max().unwrap_or(0);
        match self {
            Self::Length(_, seconds) => Ok(*seconds),
            Self::Points(number) => longest
                .checked_mul(Self::whole(*number))
                .ok_or_else(|| Error::invalid(format!("a window of {number} points is too long"))),
        }
    }

    /// The number of points in the window, for series with this step.
    fn points(&self, step: i64) -> usize {
        let points = match self {
            Self::Length(_, seconds) => seconds / step.max(1),
            Self::Points(number) => Self::whole(*number),
        };
        usize::try_from(points).unwrap_or(usize::MAX)
    }

    /// The form in series names.
    fn in_name(&self) -> String {
        match self {
            Self::Length(text, _) => format!("\"{text}\""),
            Self::Points(number) => number.to_string(),
        }
    }

    /// The form in tags.
    fn in_tag(&self) -> String {
        match self {
            Self::Length(text, _) => text.clone(),
            Self::Points(number) => number.to_string(),
        }
    }
}
