//! Fits a line or a polynomial to each series.

use futures_util::FutureExt;
use sandur_memory::job::spend;

use crate::aggregation::order;
use crate::attime::{parse_offset, parse_time};
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::group::Group;
use crate::parameter::{Kind, Preset, SERIES, optional};
use crate::series::Series;
use crate::zone::{Moment, Zone};

const BASE: Function = Function {
    name: "linearRegression",
    parameters: &[SERIES, optional("startSourceAt", Kind::Date), optional("endSourceAt", Kind::Date)],
    doc: "Computes the linear regression of each series, over the requested time or another one.",
    body: Body::EvaluatingCall(|again| linear_regression(again).boxed()),
    ..Function::of(Group::Calculate)
};

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named(
        "polyfit",
        "Fits a polynomial of the given degree to each series, and may extend it beyond the end by \
              `offset`.",
        polyfit,
    )
    .taking(&[
        SERIES,
        optional("degree", Kind::Integer).or(Preset::Int(1)),
        optional("offset", Kind::Interval).or(Preset::Text("0d")),
    ])
    .of_carbonapi(),
];

async fn linear_regression(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
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

/// The highest degree: floats cannot distinguish higher powers.
const DEGREE_MAX: i64 = 20;

fn polyfit(mut call: Call) -> Result<Vec<Series>> {
    let given = (call.has(1), call.has(2));
    let (list, degree, text) = (call.series()?, call.integer(1)?, call.text(2)?);
    if !(1..=DEGREE_MAX).contains(&degree) {
        return Err(Error::invalid(format!("the degree of polyfit must be from 1 to {DEGREE_MAX}")));
    }
    let ahead = parse_offset(&text)?;
    let mut results = Vec::with_capacity(list.len());
    for mut series in list {
        let more = ahead / series.step.max(1);
        let count = usize::try_from((series.values.len() as i64).saturating_add(more)).unwrap_or(0);
        let values = match fitted(&series.values, degree as usize, count)? {
            Some(values) => values,
            None => continue,
        };
        let name = &series.name;
        let name = match given {
            (_, true) => format!("polyfit({name},{degree},'{text}')"),
            (true, false) => format!("polyfit({name},{degree})"),
            (false, false) => format!("polyfit({name})"),
        };
        series.end = series.end.saturating_add(ahead);
        results.push(series.derived(name, values));
    }
    Ok(results)
}

/// The values of the fitted polynomial at the first `count` places; `None` if it is not determined.
fn fitted(values: &Column, degree: usize, count: usize) -> Result<Option<Column>> {
    let known = values.iter().flatten().count();
    if known < 2 {
        return Ok(Some(Column::filled(None, count)?));
    }
    // Places are scaled to -1..1, where high powers remain distinct.
    let middle = (values.len() - 1) as f64 / 2.0;
    let scaled = |place: usize| (place as f64 - middle) / middle;
    let terms = degree + 1;
    let mut rows = vec![vec![0.0; terms + 1]; terms];
    for (place, value) in values.iter().enumerate() {
        let Some(value) = value else { continue };
        spend(terms * terms)?;
        let at = scaled(place);
        let powers: Vec<f64> =
            std::iter::successors(Some(1.0), |power| Some(power * at)).take(terms).collect();
        for (row, power) in rows.iter_mut().zip(&powers) {
            row.iter_mut().zip(&powers).for_each(|(sum, other)| *sum += power * other);
            row[terms] += power * value;
        }
    }
    let Some(coefficients) = solved(rows).filter(|_| known >= terms) else { return Ok(None) };
    let mut column = Column::with_room(count)?;
    for place in 0..count {
        spend(terms)?;
        let at = scaled(place);
        column.push(Some(coefficients.iter().rev().fold(0.0, |sum, factor| sum * at + factor)));
    }
    Ok(Some(column))
}

/// Solves linear equations; the last element of each row is the right side.
fn solved(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = rows.len();
    for column in 0..count {
        let best = (column..count).max_by(|a, b| order(rows[*a][column].abs(), rows[*b][column].abs()))?;
        rows.swap(column, best);
        let pivot = rows[column].clone();
        if pivot[column].abs() < f64::EPSILON || !pivot[column].is_finite() {
            return None;
        }
        for (_, row) in rows.iter_mut().enumerate().filter(|(place, _)| *place != column) {
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(&pivot).for_each(|(value, other)| *value -= factor * other);
        }
    }
    Some((0..count).map(|place| rows[place][count] / rows[place][place]).collect())
}
