//! Differences and running sums of each series.

use super::correlation::only;
use super::series_of::replace_values;
use crate::attime::parse_offset;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function};
use crate::group::Group;
use crate::number::round;
use crate::parameter::{Kind, Parameter, SERIES, optional, required};
use crate::series::Series;

const BASE: Function = Function::of(Group::Transform).named(
    "derivative",
    "Computes the difference of each value from the previous one.",
    derivative,
);

const COUNTER: &[Parameter] = &[SERIES, optional("maxValue", Kind::Float), optional("minValue", Kind::Float)];

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "changed",
        group: Group::Special,
        doc: "Returns 1 where a value differs from the previous one, else 0.",
        body: Body::Series(changed),
        ..BASE
    },
    Function { name: "integral", doc: "Computes the running sum.", body: Body::Series(integral), ..BASE },
    BASE.named(
        "integralByInterval",
        "Computes the running sum, which restarts at 0 in each interval.",
        integral_by_interval,
    )
    .taking(&[SERIES, required("intervalUnit", Kind::Text)]),
    BASE.named(
        "integralWithReset",
        "Computes the running sum, which restarts where another series is not 0.",
        integral_with_reset,
    )
    .taking(&[SERIES, required("resettingSeries", Kind::SeriesList)])
    .of_carbonapi(),
    BASE.named(
        "nonNegativeDerivative",
        "Computes the increase of a counter from each value to the next, with detection of \
              wraparounds and resets.",
        |call| increases(call, |delta, _| delta),
    )
    .taking(COUNTER),
    BASE.named(
        "perSecond",
        "Computes the increase of a counter per second, with detection of wraparounds and resets.",
        |call| increases(call, |delta, step| round(delta / step, 6)),
    )
    .taking(COUNTER),
];

/// Computes the values of each series from left to right, by a function of a state (`None` at the start of a
/// series), the value and the step. Series are named after the call.
fn in_order(
    list: Vec<Series>,
    function: &str,
    mut next: impl FnMut(&mut Option<f64>, Option<f64>, f64) -> Option<f64>,
) -> Result<Vec<Series>> {
    replace_values(list, |series| {
        let (mut state, step) = (None, series.step as f64);
        let computed = series.points().map(|value| next(&mut state, value, step));
        let values = Column::collect(series.values.len(), computed)?;
        series.tags.set(function, 1);
        Ok((format!("{function}({})", series.name), values))
    })
}

fn derivative(mut call: Call) -> Result<Vec<Series>> {
    in_order(call.series()?, call.function.name, |before, value, _| {
        let delta = value.zip(*before).map(|(value, before)| value - before);
        *before = value;
        delta
    })
}

fn integral(mut call: Call) -> Result<Vec<Series>> {
    in_order(call.series()?, call.function.name, |sum, value, _| {
        *sum = Some(sum.unwrap_or(0.0) + value?);
        *sum
    })
}

/// The increases of a counter, each converted by a function of the increase and the step.
fn increases(mut call: Call, convert: fn(f64, f64) -> f64) -> Result<Vec<Series>> {
    let (list, most, least) = (call.series()?, call.maybe_float(1)?, call.maybe_float(2)?);
    in_order(list, call.function.name, |before, value, step| {
        let (delta, next) = nonnegative_delta(value, *before, most, least);
        *before = next;
        delta.map(|delta| convert(delta, step))
    })
}

/// The increase from the previous value, and the value that the next one is compared with.
fn nonnegative_delta(
    value: Option<f64>,
    before: Option<f64>,
    most: Option<f64>,
    least: Option<f64>,
) -> (Option<f64>, Option<f64>) {
    let fits =
        |value: &f64| !most.is_some_and(|most| *value > most) && !least.is_some_and(|least| *value < least);
    let Some(value) = value.filter(fits) else { return (None, None) };
    let Some(before) = before else { return (None, Some(value)) };
    let delta = match (most, least) {
        _ if value >= before => Some(value - before),
        (Some(most), _) => Some(most + 1.0 + value - before - least.unwrap_or(0.0)),
        (None, Some(least)) => Some(value - least),
        (None, None) => None,
    };
    (delta, Some(value))
}

fn integral_by_interval(mut call: Call) -> Result<Vec<Series>> {
    let (list, text) = (call.series()?, call.text(1)?);
    let interval = parse_offset(&text)?.abs();
    if interval == 0 {
        return Err(Error::invalid("an interval of 0 seconds: it must be longer"));
    }
    let begin = call.scope.from.wall();
    replace_values(list, |series| {
        let (mut sum, mut time) = (0.0, series.start - begin);
        let sums = series.points().map(|value| {
            if time.div_euclid(interval) != (time - series.step).div_euclid(interval) {
                sum = 0.0;
            }
            time += series.step;
            sum += value.unwrap_or(0.0);
            Some(sum)
        });
        let values = Column::collect(series.values.len(), sums)?;
        series.tags.set("integralByInterval", &text);
        Ok((format!("integralByInterval({},'{text}')", series.name), values))
    })
}

fn integral_with_reset(mut call: Call) -> Result<Vec<Series>> {
    let list = call.series()?;
    let reset = only(call.list(1)?, "integralWithReset")?;
    let one = |mut series: Series| {
        if (series.step, series.values.len()) != (reset.step, reset.values.len()) {
            let (own, other) = (&series.name, &reset.name);
            return Err(Error::invalid(format!("series {own} must have the same length as {other}")));
        }
        let (mut sum, mut resets) = (0.0, reset.points());
        series.values.map(|value| {
            let is_reset = resets.next().flatten().is_some_and(|reset| reset != 0.0);
            let value = value?;
            sum = if is_reset { 0.0 } else { sum + value };
            Some(sum)
        })?;
        series.rename(format!("integralWithReset({},{})", series.name, reset.name));
        Ok(series)
    };
    list.into_iter().map(one).collect()
}

fn changed(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    for series in &mut list {
        series.rename(format!("changed({})", series.name));
        let mut before: Option<f64> = None;
        let mut values = std::mem::take(&mut series.values);
        values.map(|value| {
            let is_other = before.is_some_and(|before| value.is_some_and(|value| value != before));
            if before.is_none() || is_other {
                before = value;
            }
            Some(f64::from(u8::from(is_other)))
        })?;
        series.values = values.of_integers();
    }
    Ok(list)
}
