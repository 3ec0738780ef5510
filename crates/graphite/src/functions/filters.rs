//! Keeps or drops whole series, by an aggregate of their values or by their name.

use futures_util::FutureExt;
use sandur_memory::job::spend;

use crate::aggregation::{Aggregation, is_enough, percentile};
use crate::call::Call;
use crate::combine::rows;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::group::Group;
use crate::parameter::{Kind, SERIES, optional, required};
use crate::pattern::{PythonRegex, Substitution};
use crate::series::Series;

const BASE: Function = Function::of(Group::FilterSeries)
    .named("averageAbove", "Keeps the series whose average is above a threshold.", |call| {
        compared(call, Aggregation::Average, ">")
    })
    .taking(&[SERIES, required("n", Kind::Float)]);

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named("averageBelow", "Keeps the series whose average is at or below a threshold.", |call| {
        compared(call, Aggregation::Average, "<=")
    }),
    BASE.named(
        "averageOutsidePercentile",
        "Keeps the series whose average is not strictly between the percentiles `n` and `100 - n` \
              of all averages.",
        average_outside_percentile,
    ),
    BASE.named("currentAbove", "Keeps the series whose last value is above a threshold.", |call| {
        compared(call, Aggregation::Last, ">")
    }),
    BASE.named("currentBelow", "Keeps the series whose last value is at or below a threshold.", |call| {
        compared(call, Aggregation::Last, "<=")
    }),
    BASE.named("exclude", "Keeps the series whose name does not match a regular expression.", |call| {
        matching(call, false)
    })
    .taking(&[SERIES, required("pattern", Kind::Regex)]),
    BASE.named(
        "filterSeries",
        "Keeps the series whose aggregate compares to a threshold by the given operator.",
        filter_series,
    )
    .taking(&[
        SERIES,
        required("func", Kind::AggFunc),
        required("operator", Kind::Text).of(&["!=", "<", "<=", "=", ">", ">="]),
        required("threshold", Kind::Float),
    ]),
    BASE.named("grep", "Keeps the series whose name matches a regular expression.", |call| {
        matching(call, true)
    })
    .taking(&[SERIES, required("pattern", Kind::Regex)]),
    BASE.named("maximumAbove", "Keeps the series whose maximum is above a threshold.", |call| {
        compared(call, Aggregation::Max, ">")
    }),
    BASE.named("maximumBelow", "Keeps the series whose maximum is at or below a threshold.", |call| {
        compared(call, Aggregation::Max, "<=")
    }),
    BASE.named("minimumAbove", "Keeps the series whose minimum is above a threshold.", |call| {
        compared(call, Aggregation::Min, ">")
    }),
    BASE.named("minimumBelow", "Keeps the series whose minimum is at or below a threshold.", |call| {
        compared(call, Aggregation::Min, "<=")
    }),
    BASE.named(
        "removeBetweenPercentile",
        "Keeps the series that at some timestamp are not strictly between the percentiles `n` and \
              `100 - n` of all series.",
        remove_between_percentile,
    ),
    BASE.named(
        "removeEmptySeries",
        "Keeps the series in which at least one point, and at least the fraction `xFilesFactor` of \
              all points, has a value.",
        remove_empty_series,
    )
    .taking(&[SERIES, optional("xFilesFactor", Kind::Float)]),
    BASE.named(
        "removeZeroSeries",
        "Keeps the series in which at least one point, and at least the fraction `xFilesFactor` of \
              all points, has a value other than 0.",
        remove_zero_series,
    )
    .taking(&[SERIES, optional("xFilesFactor", Kind::Float)])
    .of_carbonapi(),
    Function {
        name: "useSeriesAbove",
        parameters: &[
            SERIES,
            required("value", Kind::Float),
            required("search", Kind::Regex),
            required("replace", Kind::Text),
        ],
        doc: "Fetches other series for the series whose maximum is above a threshold; their names are \
              the result of a regular expression substitution.",
        body: Body::EvaluatingCall(|again| use_series_above(again).boxed()),
        ..BASE
    },
];

fn compared(mut call: Call, function: Aggregation, operator: &str) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.float(1)?);
    filter(list, function, operator, n)
}

fn filter_series(mut call: Call) -> Result<Vec<Series>> {
    let (list, function, operator) = (call.series()?, call.text(1)?, call.text(2)?);
    let threshold = call.float(3)?;
    filter(list, Aggregation::named(&function)?, &operator, threshold)
}

/// Keeps the series whose aggregate compares to a number by the operator.
fn filter(
    mut list: Vec<Series>,
    function: Aggregation,
    operator: &str,
    threshold: f64,
) -> Result<Vec<Series>> {
    let holds: fn(f64, f64) -> bool = match operator {
        "=" => |value, threshold| value == threshold,
        "!=" => |value, threshold| value != threshold,
        ">" => |value, threshold| value > threshold,
        ">=" => |value, threshold| value >= threshold,
        "<" => |value, threshold| value < threshold,
        "<=" => |value, threshold| value <= threshold,
        _ => return Err(Error::invalid(format!("Unsupported operator: {operator}"))),
    };
    let when_missing = matches!(operator, "!=" | "<" | "<=");
    let mut kept = Vec::new();
    for series in list.drain(..) {
        spend(series.values.len())?;
        let value = function.of(series.points());
        if value.map_or(when_missing, |value| holds(value, threshold)) {
            kept.push(series);
        }
    }
    Ok(kept)
}

fn matching(mut call: Call, is_kept: bool) -> Result<Vec<Series>> {
    let (list, pattern) = (call.series()?, call.text(1)?);
    let (regex, mut kept) = (PythonRegex::new(&pattern)?, Vec::new());
    for series in list {
        if regex.is_match(&series.name)? == is_kept {
            kept.push(series);
        }
    }
    Ok(kept)
}

fn average_outside_percentile(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.float(1)?);
    let n = if n < 50.0 { 100.0 - n } else { n };
    let averages: Vec<Option<f64>> =
        list.iter().map(|series| Aggregation::Average.of(series.points())).collect();
    let low = percentile(averages.iter().copied(), 100.0 - n, false)?;
    let high = percentile(averages.iter().copied(), n, false)?;
    let mut results = Vec::new();
    for (series, average) in list.into_iter().zip(averages) {
        let (Some(low), Some(average), Some(high)) = (low, average, high) else {
            return Err(Error::invalid(format!("{} has no value, so no average", series.name)));
        };
        if !(low < average && average < high) {
            results.push(series);
        }
    }
    Ok(results)
}

fn remove_between_percentile(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.float(1)?);
    let n = if n < 50.0 { 100.0 - n } else { n };
    let low = rows(&list, |row| percentile(row.iter().copied(), 100.0 - n, false))?;
    let high = rows(&list, |row| percentile(row.iter().copied(), n, false))?;
    let mut results = Vec::new();
    for series in list {
        let mut is_outside = false;
        for (place, value) in series.points().enumerate() {
            let (Some(low), Some(value), Some(high)) = (low.get(place), value, high.get(place)) else {
                return Err(Error::invalid(format!("{} has places without a value", series.name)));
            };
            is_outside |= !(low < value && value < high);
        }
        if is_outside {
            results.push(series);
        }
    }
    Ok(results)
}

fn remove_empty_series(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, share) = (call.series()?, call.maybe_float(1)?.unwrap_or(0.0));
    list.retain(|series| {
        let points = series.points();
        is_enough(points.clone().flatten().count(), points.len() as f64, share)
    });
    Ok(list)
}

fn remove_zero_series(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, share) = (call.series()?, call.maybe_float(1)?.unwrap_or(0.0));
    list.retain(|series| {
        let points = series.points();
        let count = points.clone().flatten().filter(|value| *value != 0.0).count();
        is_enough(count, points.len() as f64, share)
    });
    list.iter_mut().for_each(|series| series.tags.set("removeZeroSeries", share));
    Ok(list)
}

async fn use_series_above(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (list, value, search, replace) = (call.series()?, call.float(1)?, call.text(2)?, call.text(3)?);
    let named = again.compute(move || {
        let (substitution, mut named) = (Substitution::new(&search, &replace)?, Vec::new());
        for mut series in list {
            let name = substitution.apply(&series.name)?;
            // A series with gaps has no maximum here.
            let is_whole = series.points().all(|value| value.is_some());
            let most = Aggregation::Max.of(series.points()).filter(|_| is_whole);
            if most.is_some_and(|most| most > value) {
                series.rename(name);
                named.push(series);
            }
        }
        Ok(named)
    });
    let named = named.await?;
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = named.iter().map(|series| series.name.as_str()).collect();
    let scope = again.call.scope.written();
    let mut found = again.written(&format!("group({})", names.join(",")), &scope).await?;
    found.retain(|series| !series.values.is_empty());
    Ok(found)
}
