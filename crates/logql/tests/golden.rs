//! Runs test scripts: our own in `tests/cases`, and any others whose directory `LOGQLTEST_DIR` names (Loki's
//! own scripts have the same form).
//!
//! Each query runs over several sources of the same rows: small and large pages, shuffled, repeated, with
//! counts in place of rows. The answer must be the same over all of them.

#![allow(clippy::unwrap_used)] // a test may

mod script;

use std::path::Path;
use std::time::Duration;

use sandur_base::{Env, MemoryBudget};
use sandur_model::{Limits, TenantId};
use sandur_query::{MemoryRow, MemorySource, QueryContext, QueryResult};
use script::{Command, Eval, Expected, Match, Pairs};

fn sources(rows: &[MemoryRow]) -> Vec<(&'static str, MemorySource)> {
    let source = || MemorySource::new(rows.to_vec());
    vec![
        ("one page", source()),
        ("small pages, shuffled", source().page_rows(2).shuffled(7)),
        ("repeated pages", source().page_rows(3).duplicated(2).shuffled(11)),
        ("counts", source().page_rows(5).with_counts()),
    ]
}

fn run(source: &MemorySource, eval: &Eval) -> Result<QueryResult, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let env = Env::simulated(1, 0);
        let budget = MemoryBudget::root("query", 256 << 20);
        let context =
            QueryContext::new(env, TenantId::default_tenant(), budget.clone(), Duration::from_secs(600));
        let limits = Limits::default();
        let result = match eval.aligned {
            true => sandur_logql::query(source, &context, &limits, eval.request.clone()).await,
            false => sandur_logql::query_unaligned(source, &context, &limits, eval.request.clone()).await,
        };
        assert_eq!(budget.used(), 0, "memory was given back");
        result.map_err(|e| e.to_string())
    })
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// What is wrong with the answer.
fn check(eval: &Eval, result: Result<QueryResult, String>) -> Option<String> {
    match (&eval.expected, result) {
        (Expected::Fail(how), Err(error)) => {
            let fits = match how {
                None => true,
                Some(Match::Part(part)) => error.contains(part.as_str()),
                Some(Match::Regex(regex)) => regex.is_match(&error),
            };
            (!fits).then(|| format!("failed in other words: {error}"))
        }
        (_, Err(error)) => Some(format!("failed: {error}")),
        (Expected::Fail(_), Ok(result)) => Some(format!("did not fail: {result:?}")),
        (Expected::Empty, Ok(QueryResult::Matrix(s) | QueryResult::Vector(s))) if s.is_empty() => None,
        (Expected::Empty, Ok(QueryResult::Streams(s))) if s.is_empty() => None,
        (Expected::Empty, Ok(result)) => Some(format!("not empty: {result:?}")),
        (Expected::Scalar(value), Ok(QueryResult::Scalar(sample))) => {
            (!close(*value, sample.value)).then(|| format!("{} in place of {value}", sample.value))
        }
        (Expected::Scalar(value), Ok(QueryResult::Matrix(series))) if series.len() == 1 => {
            let same = series[0].samples.iter().all(|s| close(s.value, *value));
            (!same).then(|| format!("{series:?} in place of {value}"))
        }
        (Expected::Logs(lines), Ok(QueryResult::Streams(rows))) => {
            let found: Vec<String> = rows.iter().map(log_line).collect();
            (found != *lines).then(|| format!("found\n    {}", found.join("\n    ")))
        }
        (Expected::Series { ordered, series }, Ok(result)) => check_series(eval, *ordered, series, result),
        (_, Ok(result)) => Some(format!("another kind of answer: {result:?}")),
    }
}

/// The labels of a series and its value at each step.
type Line = (Pairs, Vec<Option<f64>>);

fn check_series(eval: &Eval, ordered: bool, expected: &[Line], result: QueryResult) -> Option<String> {
    let (found, first, step) = match (result, eval.request.kind) {
        (QueryResult::Vector(series), sandur_logql::Kind::Instant { time_ns }) => {
            (series, time_ns, 1_000_000)
        }
        (QueryResult::Matrix(series), sandur_logql::Kind::Range { start_ns, step_ns, .. }) => {
            let early = if eval.aligned { start_ns.rem_euclid(step_ns) } else { 0 };
            (series, start_ns - early, step_ns)
        }
        (other, _) => return Some(format!("another kind of answer: {other:?}")),
    };
    let text = |labels: &[(String, String)], values: &[Option<f64>]| {
        let labels: Vec<String> = labels.iter().map(|(n, v)| format!("{n}={v:?}")).collect();
        let values: Vec<String> =
            values.iter().map(|v| v.map_or("_".to_owned(), |v| v.to_string())).collect();
        format!("{{{}}} {}", labels.join(", "), values.join(" "))
    };
    let mut rows = Vec::new();
    for series in &found {
        let labels: Vec<(String, String)> =
            series.labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let steps = expected.first().map_or(1, |(_, values)| values.len());
        let mut values = vec![None; steps];
        for sample in &series.samples {
            let place = (sample.timestamp_ms - first.div_euclid(1_000_000)) / (step / 1_000_000).max(1);
            match values.get_mut(place as usize) {
                Some(slot) => *slot = Some(sample.value),
                None => return Some(format!("a value at {} ms", sample.timestamp_ms)),
            }
        }
        rows.push((labels, values));
    }
    let mut wanted = expected.to_vec();
    if !ordered {
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let equal = |a: &[Option<f64>], b: &[Option<f64>]| {
        let pair = |(a, b): (&Option<f64>, &Option<f64>)| match (a, b) {
            (Some(a), Some(b)) => close(*a, *b),
            (a, b) => a.is_none() && b.is_none(),
        };
        a.len() == b.len() && a.iter().zip(b).all(pair)
    };
    let same =
        rows.len() == wanted.len() && rows.iter().zip(&wanted).all(|(r, w)| r.0 == w.0 && equal(&r.1, &w.1));
    (!same).then(|| {
        let list = |rows: &[Line]| rows.iter().map(|(l, v)| text(l, v)).collect::<Vec<_>>().join("\n    ");
        format!("found\n    {}\n  expected\n    {}", list(&rows), list(&wanted))
    })
}

/// A row as `eval logs` writes it: time, labels by origin, line.
fn log_line(row: &sandur_query::LogRow) -> String {
    let parsed: Vec<String> = row.parsed.iter().map(|(n, v)| format!("{n}={v:?}")).collect();
    format!(
        "{}s {} {} {{{}}} {:?}",
        row.timestamp as f64 / 1e9,
        row.stream,
        row.metadata,
        parsed.join(", "),
        String::from_utf8_lossy(&row.line)
    )
}

/// Runs a directory of scripts; gives the failures and the number of evaluations.
fn run_directory(directory: &Path) -> (Vec<String>, usize) {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap_or_else(|e| panic!("{}: {e}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "logqltest"))
        .collect();
    files.sort();
    let (mut failures, mut count) = (Vec::new(), 0);
    for file in files {
        let mut rows: Vec<MemoryRow> = Vec::new();
        for command in script::parse(&std::fs::read_to_string(&file).unwrap()) {
            match command {
                Command::Clear => rows.clear(),
                Command::Load(more) => rows.extend(more),
                Command::Eval(eval) => {
                    count += 1;
                    for (name, source) in sources(&rows) {
                        if let Some(wrong) = check(&eval, run(&source, &eval)) {
                            let place = format!("{}:{}", file.display(), eval.line);
                            failures.push(format!("{place} ({name})\n  {}\n  {wrong}", eval.request.query));
                            break;
                        }
                    }
                }
            }
        }
    }
    (failures, count)
}

#[test]
fn our_own_scripts() {
    let (failures, count) = run_directory(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases"));
    assert!(failures.is_empty(), "{} of {count} failed:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 50);
}

#[test]
fn scripts_of_others() {
    let Some(directory) = sandur_base::environment::variable("LOGQLTEST_DIR") else { return };
    let (failures, count) = run_directory(Path::new(&directory));
    println!("{} of {count} evaluations failed", failures.len());
    assert!(failures.is_empty(), "{} of {count} failed:\n{}", failures.len(), failures.join("\n"));
}
