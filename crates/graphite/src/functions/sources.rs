//! Creates series without other series.

use futures_util::FutureExt;

use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, EvaluatingCall, Function};
use crate::group::Group;
use crate::parameter::{Kind, Parameter, Preset, optional, required};
use crate::scope::Scope;
use crate::series::{Consolidation, Series};

const BASE: Function = Function::of(Group::Calculate)
    .named("identity", "Creates a series whose values are their timestamps.", identity)
    .taking(&[NAME]);

const NAME: Parameter = required("name", Kind::Text);
const STEP: Parameter = optional("step", Kind::Integer).or(Preset::Int(60));

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "events",
        group: Group::Special,
        parameters: &[optional("tags", Kind::Text).many()],
        doc: "Counts, for each second, the events that have all the given tags.",
        body: Body::EvaluatingCall(|again| events(again).boxed()),
        ..BASE
    },
    Function {
        name: "randomWalk",
        aliases: &["randomWalkFunction"],
        group: Group::Special,
        parameters: &[NAME, STEP],
        doc: "Creates a series with a random walk.",
        body: Body::EvaluatingCall(|again| random_walk(again).boxed()),
        ..BASE
    },
    Function {
        name: "seriesByTag",
        group: Group::Special,
        parameters: &[required("tagExpressions", Kind::Text).many()],
        doc: "Selects the series whose tags match all expressions: `tag=value`, `tag!=value`, \
              `tag=~regex`, `tag!=~regex`.",
        body: Body::SeriesByTag,
        ..BASE
    },
    Function {
        name: "sin",
        aliases: &["sinFunction"],
        group: Group::Transform,
        parameters: &[NAME, optional("amplitude", Kind::Float).or(Preset::Int(1)), STEP],
        doc: "Creates a series with the sine of the timestamps.",
        body: Body::Series(sine),
        ..BASE
    },
    Function {
        name: "time",
        aliases: &["timeFunction"],
        group: Group::Transform,
        parameters: &[NAME, STEP],
        doc: "Creates a series whose values are their timestamps in local time.",
        body: Body::Series(time),
        ..BASE
    },
];

fn identity(mut call: Call) -> Result<Vec<Series>> {
    let name = call.text(0)?;
    let (start, end) = (call.scope.from.epoch, call.scope.until.epoch);
    let count = usize::try_from(end - start).unwrap_or(0).div_ceil(60);
    let times = (start..end).step_by(60).map(|time| Some(time as f64));
    let values = Column::collect(count, times)?.of_integers();
    let path_expression = format!("identity(\"{name}\")").into();
    let series = Series::new(name, start, end, 60, values).with_share(call.scope.x_files_factor());
    Ok(vec![Series { path_expression, ..series }])
}

fn sine(mut call: Call) -> Result<Vec<Series>> {
    let (name, amplitude, step) = (call.text(0)?, call.float(1)?, call.integer(2)?);
    let steps = same_steps(&call.scope, step)?;
    let begin = call.scope.from.wall();
    let sines = (0..steps as i64).map(|place| Some(((begin + place * step) as f64).sin() * amplitude));
    let values = Column::collect(steps, sines)?;
    let (start, end) = (call.scope.from.epoch, call.scope.until.epoch);
    Ok(vec![Series::new(name, start, end, step, values).with_share(call.scope.x_files_factor())])
}

fn time(mut call: Call) -> Result<Vec<Series>> {
    let (name, step) = (call.text(0)?, call.integer(1)?);
    let steps = same_steps(&call.scope, step)?;
    let (start, end) = (call.scope.from.wall(), call.scope.until.wall());
    let values = Column::collect(steps, (0..steps as i64).map(|place| Some((start + place * step) as f64)))?;
    Ok(vec![Series::new(name, start, end, step, values).with_share(call.scope.x_files_factor())])
}

async fn random_walk(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let (name, step) = (again.call.text(0)?, again.call.integer(1)?);
    let steps = same_steps(&again.call.scope, step)?;
    let share = again.call.scope.x_files_factor();
    let (start, end) = (again.call.scope.from.epoch, again.call.scope.until.epoch);
    let seed = again.evaluator.random();
    again
        .compute(move || {
            let mut state = seed.to_bits() | 1;
            let mut current = 0.0;
            let walk = (0..steps).map(|_| {
                let before = current;
                // xorshift64* is random enough for this.
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                current +=
                    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
                Some(before)
            });
            let values = Column::collect(steps, walk)?;
            Ok(vec![Series::new(name, start, end, step, values).with_share(share)])
        })
        .await
}

async fn events(mut again: EvaluatingCall<'_>) -> Result<Vec<Series>> {
    let tags = again.call.only_texts()?;
    let name = format!("events(\"{}\")", tags.join("\", \""));
    // Without a tag, an empty one is searched for, which no event has.
    let tags = if tags.is_empty() { vec![String::new()] } else { tags };
    let wanted: &[String] = if tags == ["*"] { &[] } else { &tags };
    let (start, end) = (again.call.scope.from.epoch, again.call.scope.until.epoch);
    let times = again.evaluator.events(wanted, start, end).await?;
    let share = again.call.scope.x_files_factor();
    again
        .compute(move || {
            let count = usize::try_from(end - start).unwrap_or(0);
            let mut values = Column::filled(None, count)?;
            // An event at the end of the time is outside of the series; graphite-web fails there.
            let places = times.iter().filter_map(|time| usize::try_from(time - start).ok());
            for place in places.filter(|place| *place < count) {
                values.set(place, Some(values.get(place).unwrap_or(0.0) + 1.0));
            }
            let mut series = Series::new(name, start, end, 1, values.of_integers()).with_share(share);
            series.consolidation = Consolidation::Sum;
            Ok(vec![series])
        })
        .await
}

/// The number of steps from the start of a request, inclusive, to its end, exclusive.
fn same_steps(scope: &Scope, step: i64) -> Result<usize> {
    if step <= 0 {
        return Err(Error::invalid(format!("a step of {step} seconds: it must be longer than 0")));
    }
    let length = scope.until.epoch.saturating_sub(scope.from.epoch).max(0);
    Ok(usize::try_from(length / step + i64::from(length % step != 0)).unwrap_or(usize::MAX))
}
