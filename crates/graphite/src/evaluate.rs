//! Evaluates targets.
//!
//! Arguments are evaluated before their function. Functions over other times evaluate their first argument
//! again, so the calls of a request are counted and limited to [`CALLS_MAX`]. Functions over values run as
//! jobs of the query on the CPU pool, as does parsing of request texts.
//!
//! **Invariant.** A function may copy the texts of its arguments to the name of each series; the memory for
//! all these copies is reserved before it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sandur_base::nesting::Nested;
use sandur_query::QueryContext;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Computation, Evaluate, EvaluatingCall, Function, Target};
use crate::functions;
use crate::glob::Pattern;
use crate::grammar::{self, Expr, TARGET_BYTES_MAX, Template, TemplateValue, parse};
use crate::number::{Number, parse_float};
use crate::parameter::Argument;
use crate::pattern;
use crate::scope::Scope;
use crate::series::Series;
use crate::source::{Fetched, Selector, Source, Window};
use crate::tags::TagExpression;

/// The most function calls of a request, including repeated evaluations.
pub const CALLS_MAX: u32 = 10_000;
/// The most nested functions that generate targets.
const WRITTEN_MAX: u16 = 8;
/// The most series in one list of a request.
pub const SERIES_MAX: usize = 1_000_000;
/// Fewer values are computed in place, and fewer bytes of text are parsed in place, without a job on the
/// CPU pool.
const LITTLE: usize = 4096;
/// The bytes that a function adds to a series name besides a text argument.
const AROUND_TEXT: usize = 64;

/// Evaluates the targets of one request.
pub struct Evaluator<'a> {
    source: &'a dyn Source,
    context: &'a QueryContext,
    template: &'a [(String, String)],
    calls: AtomicU32,
}

/// The values for the placeholders of a template.
type Replacements = [(String, TemplateValue)];

impl<'a> Evaluator<'a> {
    /// An evaluator for a request. `template` are the template values in the request.
    pub fn new(source: &'a dyn Source, context: &'a QueryContext, template: &'a [(String, String)]) -> Self {
        Self { source, context, template, calls: AtomicU32::new(0) }
    }

    /// Evaluates a target; an empty target has no series.
    pub async fn series(&self, target: &str, scope: &Scope) -> Result<Vec<Series>> {
        self.target(Target::Text(target), scope).await
    }

    /// Parses a target as a job of the query.
    async fn read(&self, text: &str) -> Result<Nested<Expr>> {
        let (is_little, text) = (text.len() < LITTLE, text.to_owned());
        self.context.compute_sized(is_little, move || Ok(parse(&text))).await?
    }

    fn evaluate<'b>(
        &'b self,
        expr: &'b Expr,
        scope: &'b Scope,
        replacements: Option<&'b Replacements>,
    ) -> BoxFuture<'b, Result<Argument>> {
        async move {
            Ok(match expr {
                Expr::Number(number) => Argument::Number(*number),
                Expr::Text(text) => Argument::Text(text.clone()),
                Expr::Flag(flag) => Argument::Flag(*flag),
                Expr::None => Argument::None,
                Expr::Path(path) => return self.path(path, scope, replacements).await,
                Expr::Call(call) => return self.call(call, scope, replacements).await,
                Expr::Template(template) => {
                    let values = self.template_values(template);
                    return self.evaluate(&template.body, scope, Some(&values)).await;
                }
            })
        }
        .boxed()
    }

    /// The template values of the target, overridden by those of the request.
    fn template_values(&self, template: &Template) -> Vec<(String, TemplateValue)> {
        let mut values = template.values.clone();
        for (name, value) in self.template {
            let value = TemplateValue::Text(value.clone());
            match values.iter_mut().find(|(own, _)| own == name) {
                Some((_, own)) => *own = value,
                None => values.push((name.clone(), value)),
            }
        }
        values
    }

    async fn path(&self, path: &str, scope: &Scope, replacements: Option<&Replacements>) -> Result<Argument> {
        let mut path = path.to_owned();
        for (name, value) in replacements.unwrap_or_default() {
            let place = format!("${name}");
            if path == place {
                return Ok(replaced(value));
            }
            let text = match value {
                TemplateValue::Number(number) => number.to_string(),
                TemplateValue::Text(text) => text.clone(),
            };
            path = pattern::replaced(&path, &place, &text, TARGET_BYTES_MAX)?;
        }
        self.fetch_path(&path, scope).await.map(Argument::Series)
    }

    async fn fetch_path(&self, path: &str, scope: &Scope) -> Result<Vec<Series>> {
        if path.contains(';') && !path.starts_with("_tagged.") {
            return self.fetch(Selector::Name(path), path, scope).await;
        }
        let pattern = Pattern::parse(path)?;
        self.fetch(Selector::Path(&pattern), path, scope).await
    }

    async fn fetch(&self, selector: Selector<'_>, path: &str, scope: &Scope) -> Result<Vec<Series>> {
        self.context.check()?;
        let window = Window { from: scope.from.epoch, until: scope.until.epoch, now: scope.now };
        let found = self.source.fetch(self.context, selector, window).await?;
        if found.len() > SERIES_MAX {
            let count = found.len();
            let message = format!("'{path}' has {count} series, more than {SERIES_MAX}; narrow the pattern");
            return Err(Error::Limit(message));
        }
        let (share, path): (f64, Arc<str>) = (scope.x_files_factor(), path.into());
        let is_little = found.len() < LITTLE / 16;
        Ok(self.context.compute_sized(is_little, move || Ok(in_order(found, &path, share))).await?)
    }

    async fn by_tags(&self, call: &grammar::Call, scope: &Scope) -> Result<Argument> {
        let text = |argument: &Expr| match argument {
            Expr::Text(text) => Some(text.clone()),
            _ => None,
        };
        let texts: Vec<String> = call.arguments.iter().filter_map(|argument| text(argument)).collect();
        let expressions = TagExpression::parse_for(self.context, texts).await?;
        self.fetch(Selector::Tags(&expressions), &call.raw, scope).await.map(Argument::Series)
    }

    async fn call(
        &self,
        call: &grammar::Call,
        scope: &Scope,
        replacements: Option<&Replacements>,
    ) -> Result<Argument> {
        self.context.check()?;
        if self.calls.fetch_add(1, Ordering::Relaxed) >= CALLS_MAX {
            let message = format!(
                "the request evaluates functions more than {CALLS_MAX} times; nest fewer functions that \
                 look at other times"
            );
            return Err(Error::Limit(message));
        }
        let function = functions::find(&call.name)?;
        if matches!(function.body, Body::SeriesByTag) {
            return self.by_tags(call, scope).await;
        }
        let mut by_place = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            by_place.push(self.evaluate(argument, scope, replacements).await?);
        }
        let mut by_name = Vec::with_capacity(call.named.len());
        for (name, argument) in &call.named {
            by_name.push((name.clone(), self.evaluate(argument, scope, replacements).await?));
        }
        let points = by_place.iter().map(size).sum::<usize>();
        let texts =
            by_place.iter().chain(by_name.iter().map(|(_, value)| value)).map(text_bytes).sum::<usize>();
        let repeated = texts.saturating_mul(by_place.iter().map(series_count).sum());
        let _held = self.context.budget().reserve(repeated as u64).map_err(sandur_query::Error::from)?;
        let points = match function.takes_regex() {
            true => usize::MAX,
            false => points.max(repeated),
        };
        let bound = Call::bind(function.callee(), scope.clone(), by_place, by_name)?;
        let first = call.arguments.first().map_or(Target::First, |first| Target::Expr(first));
        self.run(function, bound, first, points).await
    }

    async fn run(
        &self,
        function: &'static Function,
        call: Call,
        first: Target<'_>,
        points: usize,
    ) -> Result<Argument> {
        let run: Box<dyn FnOnce() -> Result<Argument> + Send> = match function.body {
            Body::Series(run) => Box::new(move || run(call).map(Argument::Series)),
            Body::Lists(run) => Box::new(move || run(call).map(Argument::Lists)),
            Body::EvaluatingCall(run) => {
                // The function's own computation between targets runs on the query's budget.
                let again = EvaluatingCall { call, evaluator: self, first };
                return run(again).await.map(Argument::Series);
            }
            Body::SeriesByTag => return Err(Error::invalid("seriesByTag takes texts")),
        };
        self.context.compute_sized(points < LITTLE, move || Ok(run())).await?
    }
}

/// Sorts the fetched series by name and removes duplicates. In a cancelled job the result is incomplete and
/// will be dropped.
fn in_order(mut found: Vec<Fetched>, path: &Arc<str>, share: f64) -> Vec<Series> {
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by(|a, b| a.name == b.name);
    found.into_iter().map(|fetched| Series::of_fetched(fetched, path, share)).collect()
}

/// The bytes of a text argument when it is copied to a name.
fn text_bytes(argument: &Argument) -> usize {
    match argument {
        Argument::Text(text) => text.len() + AROUND_TEXT,
        _ => 0,
    }
}

/// The number of series in an argument.
fn series_count(argument: &Argument) -> usize {
    match argument {
        Argument::Series(list) => list.len(),
        Argument::Lists(lists) => lists.iter().map(Vec::len).sum(),
        _ => 0,
    }
}

/// The number of values in an argument, plus an equivalent for the bytes of names.
fn size(argument: &Argument) -> usize {
    let of = |series: &Series| series.values.len() + series.name.len() / 8;
    match argument {
        Argument::Series(list) => list.iter().map(of).sum(),
        Argument::Lists(lists) => lists.iter().flatten().map(of).sum(),
        _ => 0,
    }
}

/// The value for a placeholder that is a complete argument; a text that looks like a number becomes one.
fn replaced(value: &TemplateValue) -> Argument {
    match value {
        TemplateValue::Number(number) => Argument::Number(*number),
        TemplateValue::Text(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            match parse_float(text).filter(|_| is_number) {
                Some(number) => Argument::Number(Number::Float(number)),
                None => Argument::Text(text.clone()),
            }
        }
    }
}

impl Evaluate for Evaluator<'_> {
    fn target<'b>(&'b self, target: Target<'b>, scope: &'b Scope) -> BoxFuture<'b, Result<Vec<Series>>> {
        async move {
            let parsed;
            let expr = match target {
                Target::Expr(expr) => expr,
                Target::First => {
                    return Err(Error::invalid("the function needs a target as its first argument"));
                }
                Target::Text(text) if text.trim().is_empty() => return Ok(Vec::new()),
                Target::Text(text) => {
                    if scope.depth() > WRITTEN_MAX {
                        let message =
                            format!("more than {WRITTEN_MAX} functions write targets within each other");
                        return Err(Error::Limit(message));
                    }
                    parsed = self.read(text).await?;
                    &*parsed
                }
            };
            match self.evaluate(expr, scope, None).await? {
                Argument::Series(list) => Ok(list),
                Argument::Lists(lists) if lists.is_empty() => Ok(Vec::new()),
                Argument::None => Ok(Vec::new()),
                _ => Err(Error::invalid("the target is not a list of series")),
            }
        }
        .boxed()
    }

    fn events<'b>(&'b self, tags: &'b [String], from: i64, until: i64) -> BoxFuture<'b, Result<Vec<i64>>> {
        async move { Ok(self.source.events(self.context, tags, from, until).await?) }.boxed()
    }

    fn check(&self) -> Result<()> {
        Ok(self.context.check()?)
    }

    fn compute<'b>(&'b self, job: Computation) -> BoxFuture<'b, Result<Vec<Series>>> {
        async move { self.context.compute(move || Ok(job())).await? }.boxed()
    }

    fn random(&self) -> f64 {
        (self.context.env().random_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::TenantId;
    use sandur_runtime::Env;

    use super::*;
    use crate::source::testing::Made;
    use crate::zone::{Moment, Zone};

    fn evaluated(target: &str, seconds: i64) -> Result<Vec<String>> {
        let budget = MemoryBudget::root("query", 8 << 20);
        let tenant = TenantId::default_tenant();
        let env = Env::simulated(1, 0);
        let context = QueryContext::new(env, tenant, budget.clone(), Duration::from_secs(3_600));
        let (from, until) = (Moment::utc(0), Moment::utc(seconds));
        let scope = Scope::new(from, until, seconds, Zone::utc(), 0.0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let source = Made::default();
        let evaluator = Evaluator::new(&source, &context, &[]);
        let list = runtime.block_on(evaluator.series(target, &scope));
        let names = list.map(|list| list.into_iter().map(|series| series.name).collect());
        assert_eq!(budget.used(), 0, "{target}");
        names
    }

    #[test]
    fn series_beyond_the_memory_of_a_request_are_not_created() {
        let decades = 40 * 365 * 86_400;
        for target in
            ["time('t',1)", "randomWalk('t',1)", "sin('s',1,1)", "events('*')", "identity('i')", "a"]
        {
            let error = evaluated(target, decades).unwrap_err();
            assert!(matches!(error, Error::Query(sandur_query::Error::OverBudget(_))), "{target}: {error}");
        }
        assert!(evaluated("summarize(a,'1s')", 86_400 * 30).is_err());
        assert!(evaluated("time('t',0)", 60).is_err() && evaluated("time('t',-1)", 60).is_err());
    }

    #[test]
    fn nested_windows_fail_at_the_limit_of_calls() {
        let nested = |levels| format!("{}a{}", "movingAverage(".repeat(levels), ",2)".repeat(levels));
        assert_eq!(evaluated(&nested(2), 3600).unwrap().len(), 1);
        let error = evaluated(&nested(40), 3600).unwrap_err();
        assert!(error.to_string().contains(&CALLS_MAX.to_string()), "{error}");
        let error = evaluated("movingAverage(a,999999999999999)", 3600).unwrap_err();
        assert!(!error.to_string().is_empty());
        assert!(evaluated("holtWintersForecast(a,'99999999y')", 3600).is_err());
        let written = "aliasQuery(alias(a,'b'),'b','aliasQuery(a,\"a\",\"a\",\"%d\")','%s')";
        assert!(evaluated(written, 3600).is_ok());
    }
}
