//! Keeps or drops whole series, by an aggregate of their values or by their name.

use futures_util::FutureExt;
use sandur_base::job::spend;

use crate::aggregation::{Aggregation, is_enough, percentile};
use crate::call::Call;
use crate::combine::rows;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function, Group, Origin};
use crate::parameter::{Kind, SERIES, optional, required};
use crate::pattern::{PythonRegex, Substitution};
use crate::series::Series;

const BASE: Function = Function {
    name: "averageAbove",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[SERIES, required("n", Kind::Float)],
    doc: "Keeps the series whose average is above a threshold.",
    body: Body::Series(|call| compared(call, Aggregation::Average, ">")),
};

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "averageBelow",
        doc: "Keeps the series whose average is at or below a threshold.",
        body: Body::Series(|call| compared(call, Aggregation::Average, "<=")),
        ..BASE
    },
    Function {
        name: "averageOutsidePercentile",
        doc: "Keeps the series whose average is not strictly between the percentiles `n` and `100 - n` \
              of all averages.",
        body: Body::Series(average_outside_percentile),
        ..BASE
    },
    Function {
        name: "currentAbove",
        doc: "Keeps the series whose last value is above a threshold.",
        body: Body::Series(|call| compared(call, Aggregation::Last, ">")),
        ..BASE
    },
    Function {
        name: "currentBelow",
        doc: "Keeps the series whose last value is at or below a threshold.",
        body: Body::Series(|call| compared(call, Aggregation::Last, "<=")),
        ..BASE
    },
    Function {
        name: "exclude",
        parameters: &[SERIES, required("pattern", Kind::Regex)],
        doc: "Keeps the series whose name does not match a regular expression.",
        body: Body::Series(|call| matching(call, false)),
        ..BASE
    },
    Function {
        name: "filterSeries",
        parameters: &[
            SERIES,
            required("func", Kind::AggFunc),
            required("operator", Kind::Text).of(&["!=", "<", "<=", "=", ">", ">="]),
            required("threshold", Kind::Float),
        ],
        doc: "Keeps the series whose aggregate compares to a threshold by the given operator.",
        body: Body::Series(filter_series),
        ..BASE
    },
    Function {
        name: "grep",
        parameters: &[SERIES, required("pattern", Kind::Regex)],
        doc: "Keeps the series whose name matches a regular expression.",
        body: Body::Series(|call| matching(call, true)),
        ..BASE
    },
    Function {
        name: "maximumAbove",
        doc: "Keeps the series whose maximum is above a threshold.",
        body: Body::Series(|call| compared(call, Aggregation::Max, ">")),
        ..BASE
    },
    Function {
        name: "maximumBelow",
        doc: "Keeps the series whose maximum is at or below a threshold.",
        body: Body::Series(|call| compared(call, Aggregation::Max, "<=")),
        ..BASE
    },
    Function {
        name: "minimumAbove",
        doc: "Keeps the series whose minimum is above a threshold.",
        body: Body::Series(|call| compared(call, Aggregation::Min, ">")),
        ..BASE
    },
    Function {
        name: "minimumBelow",
        doc: "Keeps the series whose minimum is at or below a threshold.",
        body: Body::Series(|call| compared(call, Aggregation::Min, "<=")),
        ..BASE
    },
    Function {
        name: "removeBetweenPercentile",
        doc: "Keeps the series that at some timestamp are not strictly between the percentiles `n` and \
              `100 - n` of all series.",
        body: Body::Series(remove_between_percentile),
        ..BASE
    },
    Function {
        name: "removeEmptySeries",
        parameters: &[SERIES, optional("xFilesFactor", Kind::Float)],
        doc: "Keeps the series in which at least one point, and at least the fraction `xFilesFactor` of \
              all points, has a value.",
        body: Body::Series(remove_empty_series),
        ..BASE
    },
    Function {
        name: "removeZeroSeries",
        origin: Origin::Carbonapi,
        parameters: &[SERIES, optional("xFilesFactor", Kind::Float)],
        doc: "Keeps the series in which at least one point, and at least the fraction `xFilesFactor` of \
              all points, has a value other than 0.",
        body: Body::Series(remove_zero_series),
        ..BASE
    },
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
