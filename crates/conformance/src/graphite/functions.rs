//! Checks calls of single functions with values, which were recorded while graphite-web's own tests ran.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sandur_graphite::{
    Argument, Computation, Error, Evaluate, Moment, Number, Scope, Series, Target, Zone, call_with_values,
};
use serde_json::Value;

use super::cases::{string, text};
use super::recorded::{difference, difference_of_tags, list, series, value};
use super::report::Report;
use crate::world::Place;

/// Integers with more digits are larger than every finite float.
const DIGITS_MAX: usize = 308;

pub(super) fn run(folder: &Path) -> Result<Report, String> {
    let path = folder.join("functions.jsonl.gz");
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let (mut count, mut failures) = (0, Vec::new());
    for line in text(&path)?.lines() {
        let case: Value = serde_json::from_str(&without_wide_integers(line))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        count += 1;
        if let Some(wrong) = runtime.block_on(wrong_in(&case)) {
            failures.push(format!("{}: {wrong}", string(&case, "id")));
        }
    }
    Ok(Report::new("functions", Place::Memory, count, failures))
}

/// Replaces integers beyond the range of a float, which Python can write, with infinity.
fn without_wide_integers(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(begin) = rest.find(|sign: char| sign.is_ascii_digit()) {
        let digits = rest[begin..].bytes().take_while(u8::is_ascii_digit).count();
        let (before, after) = (&rest[..begin], &rest[begin + digits..]);
        out.push_str(before);
        out.push_str(if digits > DIGITS_MAX { "\"inf\"" } else { &rest[begin..begin + digits] });
        rest = after;
    }
    out + rest
}

/// Returns, in order, the series that were fetched when the call was recorded.
struct Fetched(Mutex<VecDeque<Value>>);

impl Evaluate for Fetched {
    fn target<'a>(&'a self, _: Target<'a>, _: &'a Scope) -> BoxFuture<'a, Result<Vec<Series>, Error>> {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let list = next.as_ref().and_then(|next| next["series"].as_array().cloned()).unwrap_or_default();
        async move { Ok(list.iter().filter_map(series).collect()) }.boxed()
    }

    fn events<'a>(&'a self, _: &'a [String], _: i64, _: i64) -> BoxFuture<'a, Result<Vec<i64>, Error>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn compute<'a>(&'a self, job: Computation) -> BoxFuture<'a, Result<Vec<Series>, Error>> {
        async move { job() }.boxed()
    }
}

fn argument(recorded: &Value) -> Option<Argument> {
    Some(match recorded {
        Value::Null => Argument::None,
        Value::Bool(flag) => Argument::Flag(*flag),
        Value::String(text) => Argument::Text(text.clone()),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Argument::Number(Number::Int(whole)),
            None => Argument::Number(Number::Float(number.as_f64()?)),
        },
        _ if recorded.get("$float").is_some() => Argument::Number(Number::Float(value(recorded)?)),
        _ if recorded.get("$seriesList").is_some() => Argument::Series(list(recorded)?),
        _ if recorded.get("$series").is_some() => Argument::Series(vec![series(recorded)?]),
        _ => {
            let parts = recorded["$list"].as_array()?;
            match parts.iter().all(|part| part.get("$series").is_some()) {
                true => Argument::Series(parts.iter().map(series).collect::<Option<_>>()?),
                false => Argument::Lists(parts.iter().map(list).collect::<Option<_>>()?),
            }
        }
    })
}

/// Returns the times and settings of the recorded call.
fn scope(context: &Value) -> Scope {
    let zone = context["tz"].as_str().and_then(Zone::named).unwrap_or_else(Zone::utc);
    let time = |name: &str| context[name].as_i64().map_or(Moment::utc(0), |time| zone.moment(time));
    let share = context["xFilesFactor"].as_f64().unwrap_or(0.0);
    let request_zone = context["tzinfo"].as_str().and_then(Zone::named).unwrap_or_else(Zone::utc);
    let until = time("endTime");
    let scope = Scope::new(time("startTime"), until, until.epoch, request_zone, share);
    for (name, sums) in context["totalStack"].as_object().into_iter().flatten() {
        let sums = sums.get("$list").unwrap_or(sums).as_array().into_iter().flatten();
        scope.with_stack(name, |stack| *stack = sums.filter_map(value).collect());
    }
    scope
}

async fn wrong_in(case: &Value) -> Option<String> {
    let name = string(case, "function");
    let by_place = case["args"].as_array()?.iter().enumerate().map(|(place, recorded)| {
        // A recorded call sometimes lacks the series argument that the function fetches again.
        if place == 0 && recorded.is_null() && case["fetched"].is_array() {
            Some(Argument::Series(Vec::new()))
        } else {
            argument(recorded)
        }
    });
    let by_place: Option<Vec<Argument>> = by_place.collect();
    let named = case["kwargs"].as_object().into_iter().flatten();
    let by_name: Option<Vec<_>> = named.map(|(name, value)| Some((name.clone(), argument(value)?))).collect();
    let (Some(by_place), Some(by_name)) = (by_place, by_name) else {
        return Some("the arguments cannot be read".to_owned());
    };
    let fetched = case["fetched"].as_array().into_iter().flatten().cloned().collect();
    let fetched = Fetched(Mutex::new(fetched));
    let scope = scope(&case["context"]);
    let found = match call_with_values(name, scope, by_place, by_name, &fetched).await {
        Err(_) if case["error"].is_string() => return None,
        Err(error) => return Some(format!("failed: {error}")),
        Ok(_) if case["error"].is_string() => {
            return Some(format!("answered, expected the error {}", case["error"]));
        }
        Ok(Argument::Series(list)) => vec![list],
        Ok(Argument::Lists(lists)) => lists,
        Ok(_) => return Some("no series".to_owned()),
    };
    let found: Vec<&Series> = found.iter().flatten().collect();
    let wrong = difference_in(name, &case["result"], &found)?;
    let older = &case["release_1_1_10"];
    (older.is_null() || difference_in(name, older, &found).is_some()).then_some(wrong)
}

fn difference_in(function: &str, expected: &Value, found: &[&Series]) -> Option<String> {
    let parts: Vec<&Value> = match expected["$list"].as_array() {
        Some(parts) if parts.iter().all(|part| part.get("$series").is_none()) => parts.iter().collect(),
        _ => vec![expected],
    };
    let lists = parts.into_iter().map(|part| {
        let list = part.get("$seriesList").or(part.get("$list")).and_then(Value::as_array).cloned();
        list.unwrap_or_else(|| vec![part.clone()])
    });
    let expected: Vec<Value> = lists.flatten().collect();
    let wrong = difference(function, &expected, found).or_else(|| difference_of_tags(&expected, found));
    wrong.or_else(|| {
        expected.iter().zip(found).find_map(|(expected, found)| {
            let expected = expected.get("$series").unwrap_or(expected);
            let path = expected["pathExpression"].as_str().unwrap_or(string(expected, "name"));
            let is_same = *found.path_expression == *path;
            (!is_same).then(|| format!("path expression {:?}, expected {path:?}", found.path_expression))
        })
    })
}
