//! Runs scripts and reports.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandur_base::{Env, MemoryBudget};
use sandur_model::TenantId;
use sandur_promql::{Answer, Options, Point, Request, Times, Value, query};
use sandur_query::{Error, MemorySeries, QueryContext};

use super::script::{self, Command, Eval};
use super::{compare, load, rerun};

/// What a script showed.
pub struct FileReport {
    /// The script.
    pub path: PathBuf,
    /// Evaluations in it.
    pub evals: usize,
    /// Evaluations that were right the first time.
    pub passed_once: usize,
    /// Evaluations that were right each time.
    pub passed: usize,
    /// Queries that were run.
    pub runs: usize,
    /// What was wrong.
    pub failures: Vec<String>,
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let Self { evals, passed_once, passed, runs, .. } = self;
        write!(
            f,
            "{name:<28} {evals:>5} evals   {passed_once:>5} alone   {passed:>5} with re-runs   {runs:>6} runs"
        )
    }
}

/// The scripts at a path: the file itself, or every `.test` file of a directory by name.
pub fn scripts(path: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    if !std::fs::metadata(path).map_err(wrong)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(wrong)? {
        files.push(entry.map_err(wrong)?.path());
    }
    files.retain(|file| file.extension().is_some_and(|e| e == "test"));
    files.sort();
    if files.is_empty() { Err(format!("{}: no .test file", path.display())) } else { Ok(files) }
}

/// The queries of a script.
pub fn expressions(path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let commands = script::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let expr = |command| match command {
        Command::Eval(eval) => Some(eval.expr),
        _ => None,
    };
    Ok(commands.into_iter().filter_map(expr).collect())
}

/// Runs a script. `Err` when it cannot be read.
pub fn run_file(path: &Path) -> Result<FileReport, String> {
    let wrong = |e: String| format!("{}: {e}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let commands = script::parse(&text).map_err(wrong)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    let failures = Vec::new();
    let mut report =
        FileReport { path: path.to_owned(), evals: 0, passed_once: 0, passed: 0, runs: 0, failures };
    let mut store = MemorySeries::default();
    for command in &commands {
        match command {
            Command::Clear => store = MemorySeries::default(),
            Command::Load(series) => load::load(&mut store, series).map_err(wrong)?,
            Command::Eval(eval) => {
                report.evals += 1;
                let (once, outcome) = runtime.block_on(evaluate(&store, eval, &mut report.runs));
                report.passed_once += usize::from(once);
                match outcome {
                    Ok(()) => report.passed += 1,
                    Err(what) => {
                        let (file, line, expr) = (path.display(), eval.line, &eval.expr);
                        report.failures.push(format!("{file}:{line}\n  {expr}\n  {what}"));
                    }
                }
            }
        }
    }
    Ok(report)
}

async fn ask(store: &MemorySeries, text: &str, times: Times, runs: &mut usize) -> Result<Answer, Error> {
    *runs += 1;
    let (env, budget) = (Env::simulated(1, 0), MemoryBudget::root("query", 256 << 20));
    let context = QueryContext::new(env, TenantId::default_tenant(), budget, Duration::from_secs(600));
    let options = Options { use_starts: true, ..Options::default() };
    query(store, &context, &Request { query: text.to_owned(), times, options }).await
}

/// Whether the first run was right, and what was wrong with any.
async fn evaluate(store: &MemorySeries, eval: &Eval, runs: &mut usize) -> (bool, Result<(), String>) {
    let times = match eval.window {
        Some(window) => Times { start: window.end, end: window.end, step: 0 },
        None => eval.times,
    };
    let first = check(eval, ask(store, &eval.expr, times, runs).await);
    if first.is_err() || eval.is_range {
        return (first.is_ok(), first);
    }
    (true, again(store, eval, times.start, runs).await)
}

fn check(eval: &Eval, answer: Result<Answer, Error>) -> Result<(), String> {
    match (answer, &eval.fail) {
        (Err(error), Some(wanted)) if wanted.fits(&error.to_string()) => Ok(()),
        (Err(error), Some(_)) => Err(format!("it failed with other words: {error}")),
        (Err(error), None) => Err(format!("it failed: {error}")),
        (Ok(_), Some(_)) => Err("it did not fail".to_owned()),
        (Ok(answer), None) => {
            compare::notes(eval, &answer)?;
            compare::value(eval, &answer.value)
        }
    }
}

async fn again(store: &MemorySeries, eval: &Eval, at: i64, runs: &mut usize) -> Result<(), String> {
    as_range(store, eval, &eval.expr, at, runs).await?;
    let (expr, times) = rerun::pinned(&eval.expr, at)?;
    for at in times {
        let named = |what: String| format!("as {expr} at {at}: {what}");
        let answer = ask(store, &expr, Times { start: at, end: at, step: 0 }, runs).await;
        check(eval, answer).map_err(named)?;
        as_range(store, eval, &expr, at, runs).await.map_err(named)?;
    }
    Ok(())
}

/// The middle of three steps answers what the instant did.
async fn as_range(
    store: &MemorySeries,
    eval: &Eval,
    expr: &str,
    at: i64,
    runs: &mut usize,
) -> Result<(), String> {
    let context = ["start()", "end()", "range()", "step()"];
    let is_other = eval.window.is_some() || eval.string.is_some() || eval.fail.is_some();
    if is_other || context.iter().any(|call| expr.contains(call)) {
        return Ok(());
    }
    let times = Times { start: at - 60_000, end: at + 60_000, step: 60_000 };
    let answer = ask(store, expr, times, runs).await.map_err(|e| format!("as a range it failed: {e}"))?;
    if eval.ordered {
        return Ok(());
    }
    let Value::Matrix(matrix) = answer.value else { return Err("as a range it is no matrix".to_owned()) };
    compare::is_sorted(&matrix)?;
    let mut vector = Vec::new();
    for series in matrix {
        let floats = series.floats.iter().map(|(time, value)| (*time, Point::Float(*value)));
        let histograms = series.histograms.iter().map(|(time, h)| (*time, Point::Histogram(h.clone())));
        let points = floats.chain(histograms).filter(|(time, _)| *time == at);
        vector.extend(points.map(|(_, point)| (series.labels.clone(), point)));
    }
    let is_scalar = matches!(&eval.expected[..], [(None, _)]);
    let value = match &vector[..] {
        [(_, Point::Float(value))] if is_scalar => Value::Scalar(*value),
        _ => Value::Vector(vector),
    };
    compare::value(eval, &value).map_err(|what| format!("as a range: {what}"))
}
