//! A function: an entry in the table from which parsing, evaluation and documentation are made.

use futures_util::future::BoxFuture;

use crate::call::{Call, Callee};
use crate::error::{Error, Result};
use crate::grammar::Expr;
use crate::group::{Group, Origin};
use crate::parameter::{Kind, Parameter, SERIES};
use crate::scope::Scope;
use crate::series::Series;

/// A function of the language.
#[derive(Debug)]
pub struct Function {
    /// The name.
    pub name: &'static str,
    /// Alternative names.
    pub aliases: &'static [&'static str],
    /// The group in which it is listed.
    pub group: Group,
    /// The origin.
    pub origin: Origin,
    /// Whether grouping functions may use it to reduce each group to one series.
    pub aggregates: bool,
    /// The parameters.
    pub parameters: &'static [Parameter],
    /// What it does, for the reference page and for `/functions`.
    pub doc: &'static str,
    /// The implementation.
    pub(crate) body: Body,
}

impl Function {
    /// The function, as its calls see it.
    pub(crate) fn callee(&self) -> Callee {
        Callee { name: self.name, origin: self.origin, parameters: self.parameters }
    }

    /// The defaults of a function of Graphite that takes a list of series.
    pub(crate) const fn of(group: Group) -> Self {
        Self {
            name: "",
            aliases: &[],
            group,
            origin: Origin::Graphite,
            aggregates: false,
            parameters: &[SERIES],
            doc: "",
            body: Body::SeriesByTag,
        }
    }

    /// Another function of the same family.
    pub(crate) const fn named(
        self,
        name: &'static str,
        doc: &'static str,
        run: fn(Call) -> Result<Vec<Series>>,
    ) -> Self {
        Self { name, doc, body: Body::Series(run), ..self }
    }

    /// Sets the parameters.
    pub(crate) const fn taking(self, parameters: &'static [Parameter]) -> Self {
        Self { parameters, ..self }
    }

    /// Marks a function that only carbonapi has.
    pub(crate) const fn of_carbonapi(self) -> Self {
        Self { origin: Origin::Carbonapi, ..self }
    }

    /// Whether it takes a regular expression, which may be expensive even if it is short.
    pub(crate) fn takes_regex(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.kind == Kind::Regex)
    }
}

/// The implementation of a function, by its shape.
#[derive(Debug)]
pub(crate) enum Body {
    /// Computes series from its arguments alone.
    Series(fn(Call) -> Result<Vec<Series>>),
    /// Computes lists of series from its arguments alone.
    Lists(fn(Call) -> Result<Vec<Vec<Series>>>),
    /// Evaluates other targets, or its arguments at other times.
    EvaluatingCall(for<'a> fn(EvaluatingCall<'a>) -> BoxFuture<'a, Result<Vec<Series>>>),
    /// `seriesByTag`, which the evaluator implements itself.
    SeriesByTag,
}

/// A target for evaluation by a function.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// An argument of the call.
    Expr(&'a Expr),
    /// A text that the function generated.
    Text(&'a str),
    /// The first argument, whose value a test harness provides.
    First,
}

/// A computation over values.
pub type Computation = Box<dyn FnOnce() -> std::result::Result<Vec<Series>, Error> + Send>;

/// The evaluator, as functions use it.
pub trait Evaluate: Send + Sync {
    /// Evaluates a target.
    fn target<'a>(&'a self, target: Target<'a>, scope: &'a Scope) -> BoxFuture<'a, Result<Vec<Series>>>;

    /// The times of events with these tags, in seconds since 1970.
    fn events<'a>(&'a self, tags: &'a [String], from: i64, until: i64) -> BoxFuture<'a, Result<Vec<i64>>>;

    /// A random number from 0, inclusive, to 1, exclusive.
    fn random(&self) -> f64;

    /// Fails if the query is cancelled; for work outside of jobs.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Runs a computation over values as a job of the query.
    fn compute<'a>(&'a self, job: Computation) -> BoxFuture<'a, Result<Vec<Series>>>;
}

/// A call of a function that evaluates targets.
pub(crate) struct EvaluatingCall<'a> {
    pub(crate) call: Call,
    pub(crate) evaluator: &'a dyn Evaluate,
    pub(crate) first: Target<'a>,
}

impl EvaluatingCall<'_> {
    /// Evaluates the first argument in another scope.
    pub(crate) async fn first_in(&self, scope: &Scope) -> Result<Vec<Series>> {
        self.evaluator.target(self.first, scope).await
    }

    /// Runs a computation as a job of the query.
    pub(crate) async fn compute(
        &self,
        job: impl FnOnce() -> Result<Vec<Series>> + Send + 'static,
    ) -> Result<Vec<Series>> {
        self.evaluator.compute(Box::new(job)).await
    }

    /// Computes each series of a list, in one job of the query.
    pub(crate) async fn compute_each(
        &self,
        list: Vec<Series>,
        one: impl FnMut(Series) -> Result<Series> + Send + 'static,
    ) -> Result<Vec<Series>> {
        self.compute(move || list.into_iter().map(one).collect()).await
    }

    /// Evaluates a target that the function generated.
    pub(crate) async fn written(&self, target: &str, scope: &Scope) -> Result<Vec<Series>> {
        self.evaluator.target(Target::Text(target), scope).await
    }
}
