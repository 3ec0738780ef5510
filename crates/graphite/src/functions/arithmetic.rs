//! Arithmetic on each point of a series.

use std::fmt::Display;

use super::legends::value_text;
use super::series_of::{replace_values, transform};
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function};
use crate::group::{Group, Origin};
use crate::number::{Number, general, round, whole};
use crate::parameter::{Kind, Preset, SERIES, optional, required};
use crate::series::Series;

const BASE: Function =
    Function::of(Group::Transform).named("absolute", "Computes the absolute value of each point.", |call| {
        each(call, 1, |value| Ok(Some(value.abs())))
    });

const LOG: Function = Function {
    name: "log",
    parameters: &[SERIES, optional("base", Kind::Integer).or(Preset::Int(10))],
    doc: "Computes the logarithm of each point above 0.",
    body: Body::Series(log),
    ..BASE
};

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named("add", "Adds a constant to each point.", add)
        .taking(&[SERIES, required("constant", Kind::Float)]),
    BASE.named("exp", "Computes the exponential of each point.", |call| each(call, "e", exponential)),
    BASE.named("invert", "Computes the reciprocal of each point.", |call| {
        each(call, 1, |value| Ok(power(value, -1.0)))
    }),
    LOG,
    Function { name: "logarithm", origin: Origin::Carbonapi, ..LOG },
    BASE.named("logit", "Computes the logit of each point between 0 and 1.", |call| {
        each(call, "logit", |value| Ok(logit(value)))
    }),
    BASE.named("minMax", "Scales each series to the range from 0, its minimum, to 1, its maximum.", min_max),
    BASE.named("offset", "Adds a constant to each point.", |call| {
        with_number(call, |value, number| Some(value + number))
    })
    .taking(&[SERIES, required("factor", Kind::Float)]),
    BASE.named("offsetToZero", "Subtracts the minimum of each series from its points.", offset_to_zero),
    BASE.named("pow", "Raises each point to a power.", |call| with_number(call, power))
        .taking(&[SERIES, required("factor", Kind::Float)]),
    BASE.named("round", "Rounds each point to a number of decimal places.", rounded)
        .taking(&[SERIES, optional("precision", Kind::Integer).or(Preset::Int(0))]),
    BASE.named("scale", "Multiplies each point by a constant.", |call| {
        with_number(call, |value, number| Some(value * number))
    })
    .taking(&[SERIES, required("factor", Kind::Float)]),
    BASE.named(
        "scaleAfterTimestamp",
        "Multiplies each point from a timestamp on by a constant.",
        scale_after_timestamp,
    )
    .taking(&[SERIES, required("factor", Kind::Float), required("timestamp", Kind::Integer)])
    .of_carbonapi(),
    BASE.named(
        "scaleToSeconds",
        "Converts a value per step to a value per number of seconds.",
        scale_to_seconds,
    )
    .taking(&[SERIES, required("seconds", Kind::Float)]),
    BASE.named("sigmoid", "Computes the sigmoid of each point.", |call| each(call, "sigmoid", sigmoid)),
    BASE.named("squareRoot", "Computes the square root of each point.", |call| {
        each(call, 1, |value| Ok(power(value, 0.5)))
    }),
];

/// Replaces each value; series are named after the call, and get a tag with the name of the function.
fn each(
    mut call: Call,
    tag: impl Display,
    change: impl FnMut(f64) -> Result<Option<f64>>,
) -> Result<Vec<Series>> {
    let (mut list, function) = (call.series()?, call.function.name);
    list.iter_mut().for_each(|series| series.tags.set(function, &tag));
    transform(list, |name| format!("{function}({name})"), change)
}

/// Replaces each value by a function of it and the number of the second parameter.
fn with_number(mut call: Call, change: fn(f64, f64) -> Option<f64>) -> Result<Vec<Series>> {
    let (mut list, number, function) = (call.series()?, call.number(1)?, call.function.name);
    list.iter_mut().for_each(|series| series.tags.set(function, number));
    let shown = general(number.value());
    transform(list, |name| format!("{function}({name},{shown})"), |value| Ok(change(value, number.value())))
}

/// The power, if it is defined and finite.
pub(super) fn power(base: f64, exponent: f64) -> Option<f64> {
    let power = base.powf(exponent);
    let is_wrong = (power.is_nan() || power.is_infinite()) && base.is_finite() && exponent.is_finite();
    (!is_wrong).then_some(power)
}

fn exponential(value: f64) -> Result<Option<f64>> {
    match value.exp() {
        f64::INFINITY if value.is_finite() => {
            Err(Error::invalid(format!("the exponential of {value} is too large")))
        }
        power => Ok(Some(power)),
    }
}

fn sigmoid(value: f64) -> Result<Option<f64>> {
    match (-value).exp() {
        f64::INFINITY if value.is_finite() => {
            Err(Error::invalid(format!("the sigmoid of {value} is too small")))
        }
        power => Ok(Some(1.0 / (1.0 + power))),
    }
}

fn logit(value: f64) -> Option<f64> {
    let odds = value / (1.0 - value);
    (value != 1.0 && (odds > 0.0 || odds.is_nan())).then(|| odds.ln())
}

fn add(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, constant) = (call.series()?, call.number(1)?);
    let shown =
        whole(constant.value()).ok_or_else(|| Error::invalid(format!("add does not accept {constant}")))?;
    list.iter_mut().for_each(|series| series.tags.set("add", constant));
    transform(list, |name| format!("add({name},{shown})"), |value| Ok(Some(value + constant.value())))
}

fn log(mut call: Call) -> Result<Vec<Series>> {
    let (list, base) = (call.series()?, call.number(1)?);
    let divisor = base.value().ln();
    let is_wrong = base.value() <= 0.0 || divisor == 0.0;
    replace_values(list, |series| {
        if is_wrong && series.points().flatten().any(|value| value > 0.0) {
            return Err(Error::invalid(format!("the base {base} has no logarithm")));
        }
        let logarithm =
            |value: Option<f64>| value.filter(|value| *value > 0.0).map(|value| value.ln() / divisor);
        let values = Column::collect(series.values.len(), series.points().map(logarithm))?;
        series.tags.set("log", base);
        Ok((format!("log({}, {base})", series.name), values))
    })
}

fn min_max(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    for series in &mut list {
        series.rename(format!("minMax({})", series.name));
        let least = Aggregation::Min.of(series.points()).unwrap_or(0.0);
        let range = Aggregation::Max.of(series.points()).unwrap_or(0.0) - least;
        let scaled = |value: f64| Some(if range == 0.0 { 0.0 } else { (value - least) / range });
        series.values.map_values(scaled)?;
    }
    Ok(list)
}

fn offset_to_zero(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    for series in &mut list {
        let least = Aggregation::Min.of(series.points());
        series.tags.set("offsetToZero", value_text(series, Aggregation::Min));
        series.rename(format!("offsetToZero({})", series.name));
        series.values.map_values(|value| least.map(|least| value - least))?;
    }
    Ok(list)
}

fn rounded(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, precision) = (call.series()?, call.maybe_number(1)?.filter(|_| call.has(1)));
    let digits = precision.map_or(0.0, Number::value);
    let shown = precision.map(|precision| format!(",{}", general(precision.value()))).unwrap_or_default();
    list.iter_mut().for_each(|series| series.tags.set("round", format!("{digits:.0}")));
    transform(list, |name| format!("round({name}{shown})"), |value| Ok(Some(round(value, digits as i64))))
}

fn scale_after_timestamp(mut call: Call) -> Result<Vec<Series>> {
    let (list, factor, time) = (call.series()?, call.float(1)?, call.integer(2)?);
    let one = |mut series: Series| {
        let (mut at, step) = (series.start, series.step);
        let scaled = series.points().map(|value| {
            let is_after = at >= time;
            at = at.saturating_add(step);
            value.map(|value| if is_after { value * factor } else { value })
        });
        let values = Column::collect(series.values.len(), scaled)?;
        series.tags.set("scale", factor);
        let name = format!("scale({},{factor},{time})", series.name);
        Ok(series.derived(name, values))
    };
    list.into_iter().map(one).collect()
}

fn scale_to_seconds(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, seconds) = (call.series()?, call.number(1)?);
    let wrong = || Error::invalid(format!("scaleToSeconds does not accept {seconds}"));
    let shown = whole(seconds.value()).ok_or_else(wrong)?;
    for series in &mut list {
        series.tags.set("scaleToSeconds", seconds);
        series.rename(format!("scaleToSeconds({},{shown})", series.name));
        let factor = seconds.value() / series.step as f64;
        series.values.map_values(|value| Some(round(value * factor, 6)))?;
    }
    Ok(list)
}
