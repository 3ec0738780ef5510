//! `exponentialMovingAverage`: computes the exponential moving average, with the weight `2 / (windowSize
//! + 1)` for each new value.

use futures_util::FutureExt;

use super::windows::WindowSize;
use crate::aggregation::Aggregation;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::number::round;
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "exponentialMovingAverage",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("windowSize", Kind::IntOrInterval)],
    doc: "Computes the exponential moving average, with the weight `2 / (windowSize + 1)` for each \
          new value.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
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
    again
        .compute(move || {
            let one = |mut series: Series| {
                let points = window.points(series.step);
                series.tags.set("exponentialMovingAverage", window.in_tag());
                let values = averaged(&series, points, constant)?;
                let name = format!("exponentialMovingAverage({},{})", series.name, window.in_name());
                series.start = series.start.saturating_add(preview);
                Ok(series.derived(name, values))
            };
            list.into_iter().map(one).collect()
        })
        .await
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
