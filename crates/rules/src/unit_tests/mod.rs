//! Runs unit tests of rules: files in promtool's format, with lines and LogQL, and paths and
//! targets of Graphite, in addition.
//!
//! A test loads series and lines into memory, evaluates all groups at each step of `evaluation_interval`, and
//! compares firing alerts and the results of expressions with what the file expects.
//!
//! **Invariants.** Steps, values and lines of a test are bounded. A rule that fails to evaluate fails the
//! test.

mod compare;
mod file;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandur_base::small_file;
use sandur_model::{GraphiteName, Labels, Level};
use sandur_promql::series_text::{Sample, parse_samples};
use sandur_query::MemoryRow;
use sandur_runtime::{Env, Shutdown};

use crate::alert::State;
use crate::data::{Data, Instant, Number, ns_of};
use crate::external::External;
use crate::file::{ReadOptions, read};
use crate::group::{Group, Parts};
use crate::memory_data::MemoryData;
use crate::sources::{FILE_BYTES_MAX, Source};
use crate::spec::{Expression, GroupSpec, Language};
use compare::{AlertSet, samples_differ};
use file::{AlertTest, ExprTest, Test, TestFile};

/// The most evaluations of the groups of a test.
const STEPS_MAX: u64 = 1_000_000;
/// The longest evaluation of a rule.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Runs the tests of a file whose names contain one of `only`, or all. Returns what failed.
pub async fn run(env: &Env, path: &Path, only: &[String]) -> Result<(), Vec<String>> {
    let text = small_file::read_text(path, FILE_BYTES_MAX).map_err(|error| vec![error.to_string()])?;
    let tests = file::read(&text).map_err(|error| vec![error.to_string()])?;
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let groups = load(&tests, &folder)?;
    let mut failures = Vec::new();
    for (number, test) in (1..).zip(&tests.tests) {
        let is_wanted = only.is_empty() || only.iter().any(|name| test.name.contains(name.as_str()));
        if !is_wanted {
            continue;
        }
        let outcome = run_test(env, &tests, test, &groups).await;
        let name =
            if test.name.is_empty() { number.to_string() } else { format!("{number} ({})", test.name) };
        failures.extend(outcome.into_iter().map(|failure| format!("test {name}: {failure}")));
    }
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// The groups of the rule files, in the order in which they are evaluated.
fn load(tests: &TestFile, folder: &Path) -> Result<Vec<GroupSpec>, Vec<String>> {
    let (mut groups, mut failures) = (Vec::new(), Vec::new());
    for pattern in &tests.rule_files {
        let Source { path, language } = Source::parse(pattern);
        let paths = paths_of(folder, &path.to_string_lossy());
        if paths.is_empty() {
            failures.push(format!("rule_files: no file matches '{pattern}'"));
        }
        for path in paths {
            let name: Arc<str> = path.display().to_string().into();
            let options = ReadOptions { interval: tests.interval, language };
            match small_file::read_text(&path, FILE_BYTES_MAX) {
                Ok(text) => match read(&text, &name, options) {
                    Ok(more) => groups.extend(more),
                    Err(errors) => {
                        failures.extend(errors.0.iter().map(|error| format!("{name}: {error}")));
                    }
                },
                Err(error) => failures.push(format!("{name}: {error}")),
            }
        }
    }
    let place = |group: &GroupSpec| tests.order.iter().position(|name| *name == group.name).unwrap_or(0);
    groups.sort_by_key(place);
    if failures.is_empty() { Ok(groups) } else { Err(failures) }
}

/// The files of a path with `*` in its last part.
fn paths_of(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let path = folder.join(pattern);
    if !pattern.contains(['*', '?', '[']) {
        return vec![path];
    }
    let found = glob::glob(&path.to_string_lossy()).map(|paths| paths.filter_map(Result::ok).collect());
    found.unwrap_or_default()
}

fn groups_of(env: &Env, test: &Test, data: &Arc<MemoryData>, specs: &[GroupSpec]) -> Vec<Group> {
    let external = External { labels: test.external_labels.clone(), url: test.external_url.clone() };
    let data: Arc<dyn Data> = Arc::<MemoryData>::clone(data);
    let parts = Parts::unsent(env, data, external, (TIMEOUT, usize::MAX));
    specs.iter().map(|spec| Group::new(spec.clone(), parts.clone(), true)).collect()
}

async fn run_test(env: &Env, tests: &TestFile, test: &Test, specs: &[GroupSpec]) -> Vec<String> {
    let data = Arc::new(MemoryData::new(env.clone()));
    let last = test.alerts.iter().map(|one| one.at).chain(test.expressions.iter().map(|one| one.at)).max();
    let last = last.unwrap_or_default();
    if let Err(why) = fill(&data, tests, test, last) {
        return vec![why];
    }
    let mut groups = groups_of(env, test, &data, specs);
    let step = tests.interval;
    if last.as_nanos() / step.as_nanos().max(1) > u128::from(STEPS_MAX) {
        return vec![format!("more than {STEPS_MAX} evaluations until the last eval_time")];
    }
    let (mut failures, stop) = (Vec::new(), Shutdown::default());
    let mut since = Duration::ZERO;
    while since <= last {
        let at = test.start.plus(since);
        for group in &mut groups {
            group.evaluate(at, &stop.signal()).await;
        }
        let errors = groups.iter().flat_map(|group| &group.rules).filter_map(|rule| {
            let error = rule.last_error.as_ref()?;
            Some(format!("rule: {}, time: {since:?}, err: {error}", rule.spec.name))
        });
        let errors: Vec<String> = errors.collect();
        if !errors.is_empty() {
            failures.extend(errors);
            return failures;
        }
        let next = since + step;
        for one in test.alerts.iter().filter(|one| one.at >= since && one.at < next) {
            failures.extend(check_alerts(&groups, one));
        }
        since = next;
    }
    for one in &test.expressions {
        failures.extend(check_expression(&data, test, one, tests.is_fuzzy).await);
    }
    failures
}

/// Loads the series and lines until the last time that is looked at.
fn fill(data: &MemoryData, tests: &TestFile, test: &Test, last: Duration) -> Result<(), String> {
    let interval = test.interval.unwrap_or(tests.interval);
    let end = test.start.plus(last);
    let time =
        |n: usize| Instant::of_ns(test.start.ns().saturating_add(ns_of(interval).saturating_mul(n as i64)));
    let of_promql = test
        .series
        .iter()
        .map(|series| (series, sandur_promql::parse_metric(&series.name).map_err(|error| error.to_string())));
    let of_graphite = test.graphite.iter().map(|series| {
        (series, GraphiteName::parse(&series.name).labels().map_err(|error| error.to_string()))
    });
    for (series, labels) in of_promql.chain(of_graphite) {
        let labels = labels.map_err(|error| format!("series '{}': {error}", series.name))?;
        let samples =
            parse_samples(&series.values).map_err(|why| format!("series '{}': {why}", series.name))?;
        for (n, sample) in samples.into_iter().enumerate().filter(|(n, _)| time(*n) <= end) {
            if let Some(number) = number_of(sample) {
                data.add(&labels, time(n).ms(), number);
            }
        }
    }
    for stream in &test.streams {
        let labels =
            Labels::parse(&stream.labels).map_err(|error| format!("stream '{}': {error}", stream.labels))?;
        let labels = Arc::new(labels);
        for (n, line) in stream.lines.iter().enumerate().filter(|(_, line)| *line != "_") {
            data.add_line(MemoryRow {
                labels: Arc::clone(&labels),
                timestamp: time(n).ns(),
                line: line.clone().into(),
                metadata: Vec::new(),
                level: Level::None,
            });
        }
    }
    Ok(())
}

/// The value of a sample; `None` if there is none at its time.
fn number_of(sample: Sample) -> Option<Number> {
    match sample {
        Sample::Omitted => None,
        Sample::Float(value) => Some(Number::Float(value)),
        Sample::Histogram(histogram, _) => Some(Number::Histogram(histogram)),
    }
}

fn check_alerts(groups: &[Group], test: &AlertTest) -> Option<String> {
    let mut got = AlertSet::default();
    let rules = groups.iter().flat_map(|group| &group.rules);
    for rule in rules.filter(|rule| rule.spec.is_alerting() && rule.spec.name == test.name) {
        for alert in rule.alerts.iter().filter(|alert| alert.state == State::Firing) {
            got.add(&alert.labels, &alert.annotations);
        }
    }
    let mut expected = AlertSet::default();
    for one in &test.expected {
        let name = ("alertname".to_owned(), test.name.clone());
        let labels = Labels::from_pairs(one.labels.iter().cloned().chain([name]));
        expected.add(&labels, &one.annotations);
    }
    let (got, expected) = (got.sorted(), expected.sorted());
    (got != expected).then(|| {
        format!(
            "alertname: {}, time: {:?}\n  expected: {}\n  got:      {}",
            test.name,
            test.at,
            expected.join("\n            "),
            got.join("\n            ")
        )
    })
}

async fn check_expression(data: &MemoryData, test: &Test, one: &ExprTest, is_fuzzy: bool) -> Option<String> {
    let at = test.start.plus(one.at);
    let failed = |why: String| Some(format!("expr: {}, time: {:?}, err: {why}", one.expr, one.at));
    let vector = match data.query(Expression::new(one.language, &one.expr), at, TIMEOUT).await {
        Ok(vector) => vector,
        Err(error) => return failed(error.to_string()),
    };
    let mut expected = Vec::new();
    for (text, number) in &one.expected {
        let parsed = match (text.trim(), one.language) {
            ("" | "{}", _) => Ok(Labels::default()),
            (text, Language::Promql) => sandur_promql::parse_metric(text).map_err(|error| error.to_string()),
            (text, Language::Logql | Language::Graphite) => {
                Labels::parse(text).map_err(|error| error.to_string())
            }
        };
        match parsed {
            Ok(labels) => expected.push((labels, number.clone())),
            Err(why) => return failed(format!("labels '{text}': {why}")),
        }
    }
    let why = samples_differ(expected, vector.samples, is_fuzzy)?;
    Some(format!("expr: {}, time: {:?}\n{why}", one.expr, one.at))
}

#[cfg(test)]
mod tests;
