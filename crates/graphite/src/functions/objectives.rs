//! The fraction of points that meet a condition in each interval.

use futures_util::FutureExt;
use sandur_memory::job::spend;

use super::intervals::positive_interval;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::group::{Group, Origin};
use crate::parameter::{Kind, Parameter, Preset, SERIES, required};
use crate::series::Series;

const BASE: Function = Function {
    name: "slo",
    origin: Origin::Carbonapi,
    parameters: &[SERIES, INTERVAL, METHOD, VALUE],
    doc: "Computes the fraction of points in each interval that meet a condition: above or below a \
          value.",
    body: Body::EvaluatingCall(|again| objectives(again, false).boxed()),
    ..Function::of(Group::Transform)
};

const INTERVAL: Parameter = required("interval", Kind::Interval);
const METHOD: Parameter = required("method", Kind::Text).or(Preset::Text("above")).of(&[
    "above",
    "aboveOrEqual",
    "below",
    "belowOrEqual",
]);
const VALUE: Parameter = required("value", Kind::Float);

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "sloErrorBudget",
        parameters: &[SERIES, INTERVAL, METHOD, VALUE, required("objective", Kind::Float)],
        doc: "Computes the error budget of an objective that is left in each interval, in seconds; \
              negative if it is exceeded.",
        body: Body::EvaluatingCall(|again| objectives(again, true).boxed()),
        ..BASE
    },
];

/// A comparison with a value.
#[derive(Clone, Copy)]
struct Condition {
    meets: fn(&f64, &f64) -> bool,
    value: f64,
}

/// Computes the fraction in each interval, or the remaining error budget in seconds.
async fn objectives(mut again: EvaluatingCall<'_>, has_objective: bool) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (list, text, method) = (call.series()?, call.text(1)?, call.text(2)?);
    let value = call.float(3)?;
    let objective = if has_objective { Some(call.float(4)?) } else { None };
    let interval = positive_interval(&text)?;
    let meets = match method.as_str() {
        "above" => f64::gt,
        "aboveOrEqual" => f64::ge,
        "below" => f64::lt,
        "belowOrEqual" => f64::le,
        _ => return Err(Error::invalid(format!("unknown method '{method}'"))),
    };
    let scope = &call.scope;
    let missing = interval.saturating_sub(scope.until.epoch.saturating_sub(scope.from.epoch));
    let longer = scope.begun_earlier(missing);
    // An interval longer than the request includes time before it.
    let sources = if missing > 0 && !list.is_empty() { Some(again.first_in(&longer).await?) } else { None };
    if let Some(sources) = sources.as_ref().filter(|sources| sources.len() != list.len()) {
        let (a, b) = (sources.len(), list.len());
        return Err(Error::invalid(format!("the time before the request has {a} series, not {b}")));
    }
    let condition = Condition { meets, value };
    let more = objective.map(|objective| format!(", {objective}")).unwrap_or_default();
    let function = again.call.function.name;
    let mut sources = sources.into_iter().flatten();
    let one = move |series: Series| {
        let source = sources.next();
        let values = shares(source.as_ref().unwrap_or(&series), &series, interval, condition, objective)?;
        let name = format!("{function}({}, {text}, {method}, {value}{more})", series.name);
        let end = series.start.saturating_add(interval.saturating_mul(values.len() as i64));
        Ok(Series { end, step: interval, ..series.derived(name, values) })
    };
    again.compute_each(list, one).await
}

/// One value for each interval of a series, computed from a source that may begin earlier.
fn shares(
    source: &Series,
    series: &Series,
    interval: i64,
    condition: Condition,
    objective: Option<f64>,
) -> Result<Column> {
    let length = series.end.saturating_sub(series.start).max(0);
    let count = usize::try_from(length / interval + i64::from(length % interval != 0)).unwrap_or(usize::MAX);
    if series.step > interval {
        return Ok(Column::filled(None, count)?);
    }
    let mut values = Column::with_room(count)?;
    spend(source.values.len())?;
    let (mut time, mut begin) = (source.start, source.start);
    let (mut met, mut present) = (0_u64, 0_u64);
    let mut push = |met: u64, present: u64, seconds: i64| {
        let share = (present > 0).then(|| met as f64 / present as f64);
        let left = |share: f64| objective.map_or(share, |objective| (share - objective) * seconds as f64);
        if values.len() < count {
            values.push(share.map(left));
        }
    };
    for point in source.points() {
        if let Some(point) = point {
            present += 1;
            met += u64::from((condition.meets)(&point, &condition.value));
        }
        time = time.saturating_add(source.step);
        if time >= begin.saturating_add(interval) {
            push(met, present, interval);
            (begin, met, present) = (begin.saturating_add(interval), 0, 0);
        }
    }
    if time > begin {
        push(met, present, time - begin);
    }
    Ok(values)
}
