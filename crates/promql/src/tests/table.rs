//! Series in a short form, and queries with their answers in a short form.

use std::sync::Arc;
use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::histogram::{Buckets, CUSTOM_SCHEMA, GoNumber};
use sandur_model::{FloatHistogram, Labels, STALE_BITS, TenantId};
use sandur_query::{MemorySeries, QueryContext};
use sandur_runtime::Env;

use crate::{Answer, Options, Point, Request, Times, Value, parse_metric, query};

const MINUTE_MS: i64 = 60_000;

/// The series of a table.
pub struct Table(MemorySeries);

impl Table {
    /// Loads series. A line is a metric and its samples, one for each minute from 0 on: a number, `_` for
    /// none, `stale`, or a histogram. A histogram is `COUNTS/SUM` with counts of the buckets (0.5, 1],
    /// (1, 2], (2, 4], and so on, or `COUNTS/SUM@BOUNDS` with custom upper bounds.
    pub fn load(text: &str) -> Self {
        let mut source = MemorySeries::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let end = line.find(' ').unwrap();
            let labels = parse_metric(&line[..end]).unwrap();
            source.edit(&labels, |samples| {
                let mut times = Vec::new();
                for (minute, word) in (0..).zip(line[end..].split_ascii_whitespace()) {
                    let time = minute * MINUTE_MS;
                    match word.split_once('/') {
                        _ if word == "_" => {}
                        Some((counts, sum)) => {
                            samples.histogram_times.push(time);
                            samples.histograms.push(Arc::new(histogram(counts, sum)));
                        }
                        None => {
                            times.push(time);
                            let is_stale = word == "stale";
                            let stale = f64::from_bits(STALE_BITS);
                            samples.values.push(if is_stale { stale } else { word.parse().unwrap() });
                        }
                    }
                }
                samples.times = times.into();
            });
        }
        Self(source)
    }

    /// Checks answers at an instant, in seconds. An answer is a number, the series in the order of their
    /// texts, or `error: ` and a part of the error. The order of a query that sorts is significant.
    pub fn check(&self, second: i64, cases: &[(&str, &str)]) {
        let at = second * 1000;
        for (text, expected) in cases {
            let found = match self.ask(text, Times { start: at, end: at, step: 0 }) {
                Ok(answer) => shown(&answer.value, text),
                Err(error) => error,
            };
            check(text, &found, expected);
        }
    }

    /// Checks the answer of a range query, in seconds: for each series a value or `_` for each step.
    pub fn check_range(&self, (start, end, step): (i64, i64, i64), text: &str, expected: &str) {
        let times = Times { start: start * 1000, end: end * 1000, step: step * 1000 };
        let Value::Matrix(series) = self.ask(text, times).unwrap().value else { panic!("{text}: no matrix") };
        let row = |one: &crate::Series| {
            let value = |time: i64| one.floats.iter().find(|(at, _)| *at == time).map(|(_, value)| *value);
            let steps = (times.start..=times.end).step_by(times.step as usize);
            let values = steps.map(|time| value(time).map_or("_".to_owned(), |v| GoNumber(v).to_string()));
            format!("{} {}", name(&one.labels), values.collect::<Vec<_>>().join(" "))
        };
        check(text, &series.iter().map(row).collect::<Vec<_>>().join("; "), expected);
    }

    /// Returns the warnings and infos of a query at an instant, in seconds.
    pub fn notes(&self, second: i64, text: &str) -> Vec<String> {
        let at = second * 1000;
        let answer = self.ask(text, Times { start: at, end: at, step: 0 }).unwrap();
        [answer.warnings, answer.infos].concat()
    }

    fn ask(&self, text: &str, times: Times) -> Result<Answer, String> {
        let budget = MemoryBudget::root("query", 1 << 24);
        let (env, tenant) = (Env::simulated(1, 0), TenantId::default_tenant());
        let context = QueryContext::new(env, tenant, budget, Duration::from_secs(600));
        let request = Request { query: text.to_owned(), times, options: Options::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(query(&self.0, &context, &request)).map_err(|error| error.to_string())
    }
}

fn check(text: &str, found: &str, expected: &str) {
    match expected.strip_prefix("error: ") {
        Some(part) => assert!(found.contains(part), "{text}\n   found {found}\nexpected {expected}"),
        None => assert_eq!(found, expected, "{text}"),
    }
}

fn numbers(text: &str) -> Vec<f64> {
    text.split(',').map(|number| number.parse().unwrap()).collect()
}

fn histogram(counts: &str, sum: &str) -> FloatHistogram {
    let counts = numbers(counts);
    let (sum, bounds) = sum.split_once('@').map_or((sum, None), |(sum, bounds)| (sum, Some(numbers(bounds))));
    let (schema, bounds) = bounds.map_or((0, Vec::new()), |bounds| (CUSTOM_SCHEMA, bounds));
    let (count, indices) = (counts.iter().sum(), (0..counts.len() as i32).collect());
    FloatHistogram {
        schema,
        count,
        sum: sum.parse().unwrap(),
        positive: Buckets { indices, counts },
        bounds: bounds.into(),
        ..FloatHistogram::default()
    }
}

fn name(labels: &Labels) -> String {
    let pairs = labels.iter().filter(|(name, _)| *name != "__name__");
    let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}={value:?}")).collect();
    let metric = labels.get("__name__").unwrap_or_default();
    format!("{metric}{{{}}}", pairs.join(","))
}

fn shown(value: &Value, text: &str) -> String {
    let point = |point: &Point| match point {
        Point::Float(value) => GoNumber(*value).to_string(),
        Point::Histogram(histogram) => histogram.to_string(),
    };
    let mut rows: Vec<String> = match value {
        Value::Scalar(number) => return GoNumber(*number).to_string(),
        Value::String(text) => return text.clone(),
        Value::Vector(rows) => {
            rows.iter().map(|(labels, one)| format!("{} {}", name(labels), point(one))).collect()
        }
        Value::Matrix(all) => {
            let values = |one: &crate::Series| -> Vec<String> {
                let floats = one.floats.iter().map(|(time, value)| format!("{}@{time}", GoNumber(*value)));
                floats.collect()
            };
            all.iter().map(|one| format!("{} {}", name(&one.labels), values(one).join(" "))).collect()
        }
    };
    if !["sort", "topk", "bottomk"].iter().any(|head| text.starts_with(head)) {
        rows.sort();
    }
    rows.join("; ")
}
