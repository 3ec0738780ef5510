//! Aggregations over a sliding window.

use super::windows::WindowSize;
use crate::aggregation::{Aggregation, is_enough};
use crate::column::Column;
use crate::error::Result;
use crate::function::Again;
use crate::series::Series;
use sandur_base::job::spend;

/// Python's `str.capitalize`, for `'average'.capitalize()`.
fn capitalized(name: &str) -> String {
    let mut signs = name.chars();
    let first = signs.next().map(|sign| sign.to_ascii_uppercase());
    first.into_iter().chain(signs.map(|sign| sign.to_ascii_lowercase())).collect()
}

/// Aggregates the window up to each point; the window is the second parameter.
pub(super) async fn moving(mut again: Again<'_>, function: &str, share: Option<f64>) -> Result<Vec<Series>> {
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
    again
        .compute(move || {
            let one = |mut series: Series| {
                let points = window.points(series.step);
                let share = share.unwrap_or(series.x_files_factor);
                series.tags.set(&tag, window.in_tag());
                let values = windowed(&series, points, aggregation, share)?;
                let name = format!("{tag}({},{})", series.name, window.in_name());
                series.start = series.start.saturating_add(preview);
                Ok(series.derived(name, values))
            };
            list.into_iter().map(one).collect()
        })
        .await
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
