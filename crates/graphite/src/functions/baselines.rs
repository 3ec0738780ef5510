//! Compares a series with its medians over several earlier periods.

use futures_util::FutureExt;
use sandur_memory::job::spend;

use super::time_shift::backwards;
use crate::aggregation::Aggregation;
use crate::column::Column;
use crate::combine::Groups;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::group::{Group, Origin};
use crate::parameter::{Kind, Preset, SERIES, optional};
use crate::series::Series;

const BASE: Function = Function {
    name: "baseline",
    origin: Origin::Carbonapi,
    parameters: &[
        SERIES,
        optional("timeShiftUnit", Kind::Interval).or(Preset::Text("1d")),
        optional("timeShiftStart", Kind::Integer).or(Preset::Int(0)),
        optional("timeShiftEnd", Kind::Integer).or(Preset::Int(7)),
        optional("maxAbsentPercent", Kind::Float),
        optional("minAvg", Kind::Float),
    ],
    doc: "Computes the median of each series over several earlier periods.",
    body: Body::EvaluatingCall(|again| baselines(again, false).boxed()),
    ..Function::of(Group::Calculate)
};

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "baselineAberration",
        doc: "Divides each series by its median over several earlier periods.",
        body: Body::EvaluatingCall(|again| baselines(again, true).boxed()),
        ..BASE
    },
];

/// The most earlier periods of a call.
const SHIFTS_MAX: i64 = 1000;

/// The conditions under which a series has no result: too many missing values, or too small an average.
#[derive(Clone, Copy)]
struct Bounds {
    most_absent_percent: Option<f64>,
    least_average: Option<f64>,
}

/// Computes the median of each series over earlier periods, or the series divided by that median.
async fn baselines(mut again: EvaluatingCall<'_>, is_aberration: bool) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (list, text, first, last) = (call.series()?, call.text(1)?, call.integer(2)?, call.integer(3)?);
    let bounds = Bounds { most_absent_percent: call.maybe_float(4)?, least_average: call.maybe_float(5)? };
    let (_, unit) = backwards(text)?;
    if last.saturating_sub(first) > SHIFTS_MAX {
        return Err(Error::Limit(format!("a baseline of more than {SHIFTS_MAX} periods; use fewer")));
    }
    let mut groups = Groups::<Vec<Series>>::new();
    let mut current = Groups::<Option<Series>>::new();
    for series in list {
        let name = series.name.clone();
        *current.of(&name) = Some(series);
    }
    for shift in (first..last).filter(|shift| *shift != 0) {
        let moved = unit.saturating_mul(shift);
        let scope = &again.call.scope;
        let scope = scope.shifted(scope.from.later(moved), scope.until.later(moved));
        for mut series in again.first_in(&scope).await? {
            if is_aberration && current.find(&series.name).is_none() {
                continue;
            }
            series.start = series.start.saturating_sub(moved);
            series.end = series.end.saturating_sub(moved);
            let name = series.name.clone();
            groups.of(&name).push(series);
        }
    }
    again
        .compute(move || {
            let mut results = Vec::new();
            for (name, group) in groups.into_groups() {
                let own = current.find(&name).and_then(Option::as_ref).filter(|_| is_aberration);
                results.extend(baseline(group, own, bounds)?);
            }
            Ok(results)
        })
        .await
}

/// The median of the series of earlier periods; with `own`, the quotient of `own` and that median.
fn baseline(group: Vec<Series>, own: Option<&Series>, bounds: Bounds) -> Result<Option<Series>> {
    let mut series = group.into_iter();
    let Some(first) = series.next() else { return Ok(None) };
    let others: Vec<Series> = series.collect();
    let count = first.values.len();
    let mut values = Column::with_room(count)?;
    let (mut sum, mut present) = (0.0, 0_usize);
    for place in 0..count {
        spend((others.len() + 1) * 4)?;
        let row = std::iter::once(&first).chain(&others).map(|series| series.values.get(place));
        let median = Aggregation::Median.of(row);
        if let Some(median) = median {
            (sum, present) = (sum + median, present + 1);
        }
        values.push(match (median, own) {
            (Some(median), Some(own)) => {
                own.values.get(place).map(|value| if median == 0.0 { median } else { value / median })
            }
            (median, _) => median,
        });
    }
    let absent = 100.0 * (count - present) as f64 / count as f64;
    let is_sparse = bounds.most_absent_percent.is_some_and(|most| absent > most);
    let is_small = bounds.least_average.is_some_and(|least| present > 0 && sum / (present as f64) < least);
    if is_sparse || is_small {
        return Ok(None);
    }
    let name = if own.is_some() { "baselineAberration" } else { "baseline" };
    let name = format!("{name}({})", first.name);
    Ok(Some(first.derived(name, values)))
}
