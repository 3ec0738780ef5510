//! Runs scripts and reports the results.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::TenantId;
use sandur_promql::{Answer, Options, Point, Request, Series, Times, Value, query};
use sandur_query::{QueryContext, SampleSource};
use sandur_runtime::Env;

use super::place::Stored;
use super::script::{self, Command, Eval};
use super::{compare, rerun};
use crate::world::Place;

/// The results of a script in one place.
#[derive(Clone, Copy)]
pub struct Passed {
    /// Where the series were stored.
    pub place: Place,
    /// Evaluations whose first run was correct.
    pub once: usize,
    /// Evaluations all of whose runs were correct.
    pub again: usize,
    /// Number of queries that were run.
    pub runs: usize,
}

impl Passed {
    /// The results before anything has run.
    pub fn none(place: Place) -> Self {
        Self { place, once: 0, again: 0, runs: 0 }
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, once, again, runs } = self;
        write!(f, "   {} {once} alone, {again} with re-runs ({runs} runs)", place.name())
    }
}

/// The results of a script in all places.
pub struct FileReport {
    /// Path of the script.
    pub path: PathBuf,
    /// Number of evaluations in the script.
    pub evals: usize,
    /// The results in each place.
    pub passed: Vec<Passed>,
    /// Descriptions of the failures.
    pub failures: Vec<String>,
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        write!(f, "{name:<28} {:>5} evals", self.evals)?;
        self.passed.iter().try_for_each(|passed| passed.fmt(f))
    }
}

/// Returns the scripts at a path: the file itself, or every `.test` file of a directory, sorted by name.
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

/// Returns the queries of a script.
pub fn expressions(path: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let commands = script::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let expr = |command| match command {
        Command::Eval(eval) => Some(eval.expr),
        _ => None,
    };
    Ok(commands.into_iter().filter_map(expr).collect())
}

/// How often each instant evaluation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Once.
    Once,
    /// Again with `@` modifiers at other times, and as range queries, as Prometheus's own harness does.
    Again,
}

/// Runs a script in each place. Fails if the script cannot be read or a place cannot be opened.
pub fn run_file(path: &Path, places: &[Place], runs: Runs) -> Result<FileReport, String> {
    let wrong = |e: String| format!("{}: {e}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let commands = script::parse(&text).map_err(wrong)?;
    let evals = commands.iter().filter(|c| matches!(c, Command::Eval(_))).count();
    let mut report = FileReport { path: path.to_owned(), evals, passed: Vec::new(), failures: Vec::new() };
    for place in places {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        runtime.block_on(run_in(*place, runs, &commands, &mut report)).map_err(wrong)?;
    }
    Ok(report)
}

async fn run_in(
    place: Place,
    runs: Runs,
    commands: &[Command],
    report: &mut FileReport,
) -> Result<(), String> {
    let mut stored = Stored::open(place).await?;
    let mut passed = Passed::none(place);
    for command in commands {
        match command {
            Command::Clear => stored.clear(),
            Command::Load(series) => stored.load(series).await?,
            Command::Eval(eval) => {
                stored.settle().await?;
                let (source, tenant) = stored.source()?;
                let budget = MemoryBudget::root("query", QUERY_BYTES);
                let mut asker = Asker { source, tenant, budget, runs: 0 };
                let (once, outcome) = asker.evaluate(eval, runs).await;
                passed.once += usize::from(once);
                passed.runs += asker.runs;
                match outcome {
                    Ok(()) => passed.again += 1,
                    Err(what) => {
                        let (file, line, expr) = (report.path.display(), eval.line, &eval.expr);
                        let place = place.name();
                        report.failures.push(format!("{file}:{line} ({place})\n  {expr}\n  {what}"));
                    }
                }
            }
        }
    }
    report.passed.push(passed);
    stored.close().await
}

/// Memory budget of a query in bytes.
const QUERY_BYTES: u64 = 256 << 20;

/// Runs queries on the series of one place.
struct Asker {
    source: Arc<dyn SampleSource>,
    tenant: TenantId,
    budget: MemoryBudget,
    runs: usize,
}

impl Asker {
    async fn ask(&mut self, text: &str, times: Times) -> Result<Answer, String> {
        self.runs += 1;
        let (env, timeout) = (Env::simulated(1, 0), Duration::from_secs(600));
        let context = QueryContext::new(env, self.tenant.clone(), self.budget.clone(), timeout);
        let options = Options { use_starts: true, ..Options::default() };
        let request = Request { query: text.to_owned(), times, options };
        query(&*self.source, &context, &request).await.map_err(|e| e.to_string())
    }

    /// Runs all variants of an evaluation. Returns whether the first run was correct, and the first
    /// failure.
    async fn evaluate(&mut self, eval: &Eval, runs: Runs) -> (bool, Result<(), String>) {
        let first = self.first(eval).await;
        let is_once = first.is_ok();
        let outcome = match first {
            Ok(()) if runs == Runs::Again && !eval.is_range => self.again(eval).await,
            first => first,
        };
        match self.budget.used() {
            0 => (is_once, outcome),
            kept => {
                (is_once, outcome.and(Err(format!("queries did not release {kept} bytes of their budget"))))
            }
        }
    }

    async fn first(&mut self, eval: &Eval) -> Result<(), String> {
        let times = match eval.window {
            Some(window) => Times { start: window.end, end: window.end, step: 0 },
            None => eval.times,
        };
        check(eval, self.ask(&eval.expr, times).await)
    }

    async fn again(&mut self, eval: &Eval) -> Result<(), String> {
        let at = eval.times.start;
        self.as_range(eval, &eval.expr, at).await?;
        let (expr, times) = rerun::pinned(&eval.expr, at)?;
        for at in times {
            let named = |what: String| format!("as {expr} at {at}: {what}");
            let answer = self.ask(&expr, Times { start: at, end: at, step: 0 }).await;
            check(eval, answer).map_err(named)?;
            self.as_range(eval, &expr, at).await.map_err(named)?;
        }
        Ok(())
    }

    /// Checks that the middle one of three steps has the answer of the instant query.
    async fn as_range(&mut self, eval: &Eval, expr: &str, at: i64) -> Result<(), String> {
        let context = ["start()", "end()", "range()", "step()"];
        let is_other = eval.window.is_some() || eval.string.is_some() || eval.fail.is_some();
        if is_other || context.iter().any(|call| expr.contains(call)) {
            return Ok(());
        }
        let times = Times { start: at - 60_000, end: at + 60_000, step: 60_000 };
        let answer = self.ask(expr, times).await.map_err(|e| format!("as a range it failed: {e}"))?;
        if eval.ordered {
            return Ok(());
        }
        let Value::Matrix(matrix) = answer.value else {
            return Err("as a range query it did not return a matrix".to_owned());
        };
        compare::is_sorted(&matrix)?;
        let value = at_step(eval, matrix, at);
        compare::value(eval, &value).map_err(|what| format!("as a range: {what}"))
    }
}

/// Returns the answer of a range query at one of its steps.
fn at_step(eval: &Eval, matrix: Vec<Series>, at: i64) -> Value {
    let mut vector = Vec::new();
    for series in matrix {
        let floats = series.floats.iter().map(|(time, value)| (*time, Point::Float(*value)));
        let histograms = series.histograms.iter().map(|(time, h)| (*time, Point::Histogram(h.clone())));
        let points = floats.chain(histograms).filter(|(time, _)| *time == at);
        vector.extend(points.map(|(_, point)| (series.labels.clone(), point)));
    }
    let is_scalar = matches!(&eval.expected[..], [(None, _)]);
    match &vector[..] {
        [(_, Point::Float(value))] if is_scalar => Value::Scalar(*value),
        _ => Value::Vector(vector),
    }
}

fn check(eval: &Eval, answer: Result<Answer, String>) -> Result<(), String> {
    match (answer, &eval.fail) {
        (Err(error), Some(wanted)) if wanted.fits(&error) => Ok(()),
        (Err(error), Some(_)) => Err(format!("it failed with another message: {error}")),
        (Err(error), None) => Err(format!("it failed: {error}")),
        (Ok(_), Some(_)) => Err("it did not fail".to_owned()),
        (Ok(answer), None) => {
            compare::notes(eval, &answer)?;
            compare::value(eval, &answer.value)
        }
    }
}
