//! Sorts series, and keeps the first ones.

use sandur_memory::job::spend;

use super::keys::take_first;
use crate::aggregation::{Aggregation, order};
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function};
use crate::group::{Group, Origin};
use crate::parameter::{Kind, Parameter, Preset, SERIES, optional, required};
use crate::series::Series;

const SORT_BY: Function = Function::of(Group::Sorting)
    .named("sortBy", "Sorts series by an aggregate.", sort_by_aggregate)
    .taking(&[
        SERIES,
        optional("func", Kind::AggFunc).or(Preset::Text("average")),
        optional("reverse", Kind::Boolean).or(Preset::Flag(false)),
    ]);

/// Functions that keep the first series of an order.
const LIMIT: Function = Function {
    name: "limit",
    group: Group::FilterSeries,
    parameters: &[SERIES, required("n", Kind::Integer)],
    doc: "Keeps the first `n` series.",
    body: Body::Series(limit),
    ..SORT_BY
};

const HIGHEST: Function = Function {
    name: "highest",
    parameters: &[SERIES, COUNT, optional("func", Kind::AggFunc).or(Preset::Text("average"))],
    doc: "Keeps the `n` series with the largest aggregate.",
    body: Body::Series(|call| ranked_by_name(call, true)),
    ..LIMIT
};

/// carbonapi's functions that keep the first series of an order.
const HIGHEST_MIN: Function = Function {
    name: "highestMin",
    origin: Origin::Carbonapi,
    parameters: &[SERIES, COUNT],
    doc: "Keeps the `n` series with the largest minimum.",
    body: Body::Series(|call| ranked(call, Aggregation::Min, true)),
    ..LIMIT
};

const COUNT: Parameter = optional("n", Kind::Integer).or(Preset::Int(1));

pub(super) const TABLE: &[Function] = &[
    SORT_BY,
    SORT_BY
        .named("sortByMaxima", "Sorts series by their maximum, in descending order.", |mut call| {
            sort_by(call.series()?, Aggregation::Max, true)
        })
        .taking(&[SERIES]),
    SORT_BY
        .named(
            "sortByMinima",
            "Sorts series by their minimum; drops series without a value above 0.",
            sort_by_minima,
        )
        .taking(&[SERIES]),
    SORT_BY
        .named(
            "sortByName",
            "Sorts series by name; with `natural`, numbers in names compare by value.",
            sort_by_name,
        )
        .taking(&[
            SERIES,
            optional("natural", Kind::Boolean).or(Preset::Flag(false)),
            optional("reverse", Kind::Boolean).or(Preset::Flag(false)),
        ]),
    SORT_BY
        .named("sortByTotal", "Sorts series by the sum of their values, in descending order.", |mut call| {
            sort_by(call.series()?, Aggregation::Sum, true)
        })
        .taking(&[SERIES]),
    LIMIT,
    HIGHEST,
    LIMIT.named("highestAverage", "Keeps the `n` series with the largest average.", |call| {
        ranked(call, Aggregation::Average, true)
    }),
    LIMIT.named("highestCurrent", "Keeps the `n` series with the largest last value.", |call| {
        ranked(call, Aggregation::Last, true)
    }),
    LIMIT.named("highestMax", "Keeps the `n` series with the largest maximum.", |call| {
        ranked(call, Aggregation::Max, true)
    }),
    HIGHEST_MIN,
    HIGHEST.named("lowest", "Keeps the `n` series with the smallest aggregate.", |call| {
        ranked_by_name(call, false)
    }),
    LIMIT.named("lowestAverage", "Keeps the `n` series with the smallest average.", |call| {
        ranked(call, Aggregation::Average, false)
    }),
    LIMIT.named("lowestCurrent", "Keeps the `n` series with the smallest last value.", |call| {
        ranked(call, Aggregation::Last, false)
    }),
    HIGHEST_MIN.named("lowestMax", "Keeps the `n` series with the smallest maximum.", |call| {
        ranked(call, Aggregation::Max, false)
    }),
    HIGHEST_MIN.named("lowestMin", "Keeps the `n` series with the smallest minimum.", |call| {
        ranked(call, Aggregation::Min, false)
    }),
    LIMIT.named("mostDeviant", "Keeps the `n` series with the largest variance.", most_deviant),
];

/// Ranks series by an aggregate, the largest or the smallest first, and keeps the first ones. Graphite
/// counts a negative `n` from the end; carbonapi keeps no series then.
fn ranked(mut call: Call, function: Aggregation, is_largest_first: bool) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.integer(1)?);
    let n = if call.function.origin == Origin::Carbonapi { n.max(0) } else { n };
    Ok(take_first(sort_by(list, function, is_largest_first)?, n))
}

fn ranked_by_name(mut call: Call, is_largest_first: bool) -> Result<Vec<Series>> {
    let (list, n, function) = (call.series()?, call.integer(1)?, call.text(2)?);
    Ok(take_first(sort_by(list, Aggregation::named(&function)?, is_largest_first)?, n))
}

fn limit(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.integer(1)?);
    Ok(take_first(list, n))
}

fn most_deviant(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.integer(1)?);
    let mut deviants = Vec::new();
    for series in list {
        spend(series.values.len())?;
        let Some(mean) = Aggregation::Average.of(series.points()) else { continue };
        let (mut squares, mut count) = (0.0, 0.0);
        for value in series.points().flatten() {
            squares += (value - mean) * (value - mean);
            count += 1.0;
        }
        deviants.push((squares / count, series));
    }
    deviants.sort_by(|a, b| order(b.0, a.0));
    Ok(take_first(deviants.into_iter().map(|(_, series)| series).collect(), n))
}

fn sort_by_aggregate(mut call: Call) -> Result<Vec<Series>> {
    let (list, function, reverse) = (call.series()?, call.text(1)?, call.flag(2));
    sort_by(list, Aggregation::named(&function)?, reverse)
}

/// Sorts by an aggregate with a stable sort; series without a value count as the smallest.
fn sort_by(list: Vec<Series>, function: Aggregation, reverse: bool) -> Result<Vec<Series>> {
    let mut keyed = Vec::with_capacity(list.len());
    for series in list {
        spend(series.values.len())?;
        keyed.push((function.of(series.points()).unwrap_or(f64::NEG_INFINITY), series));
    }
    keyed.sort_by(|(a, _), (b, _)| if reverse { order(*b, *a) } else { order(*a, *b) });
    Ok(keyed.into_iter().map(|(_, series)| series).collect())
}

fn sort_by_minima(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    list.retain(|series| Aggregation::Max.of(series.points()).is_some_and(|most| most > 0.0));
    sort_by(list, Aggregation::Min, false)
}

fn sort_by_name(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, natural, reverse) = (call.series()?, call.flag(1), call.flag(2));
    let key = |name: &str| if natural { padded(name) } else { name.to_owned() };
    match reverse {
        true => list.sort_by_cached_key(|series| std::cmp::Reverse(key(&series.name))),
        false => list.sort_by_cached_key(|series| key(&series.name)),
    }
    Ok(list)
}

/// The name with its numbers padded with zeros, so that they compare by value.
fn padded(name: &str) -> String {
    let (mut out, mut digits) = (String::new(), String::new());
    let flush = |digits: &mut String, out: &mut String| {
        if !digits.is_empty() {
            let number = digits.trim_start_matches('0');
            out.push_str(&format!("{:0>10}", if number.is_empty() { "0" } else { number }));
            digits.clear();
        }
    };
    for sign in name.chars() {
        if sign.is_ascii_digit() {
            digits.push(sign);
            continue;
        }
        flush(&mut digits, &mut out);
        out.push(sign);
    }
    flush(&mut digits, &mut out);
    out
}
