//! What a function is: an entry of the table that parsing, evaluation and documentation read.

use futures_util::future::BoxFuture;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::grammar::Expr;
use crate::parameter::{Kind, Parameter};
use crate::scope::Scope;
use crate::series::Series;

/// Graphite's groups of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Names.
    Alias,
    /// Computations over time.
    Calculate,
    /// One series of many.
    Combine,
    /// Which values stay.
    FilterData,
    /// Which series stay.
    FilterSeries,
    /// Drawing.
    Graph,
    /// Order.
    Sorting,
    /// Others.
    Special,
    /// Value by value.
    Transform,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 9] = [
        Self::Alias,
        Self::Calculate,
        Self::Combine,
        Self::FilterData,
        Self::FilterSeries,
        Self::Graph,
        Self::Sorting,
        Self::Special,
        Self::Transform,
    ];

    /// Graphite's name of the group.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alias => "Alias",
            Self::Calculate => "Calculate",
            Self::Combine => "Combine",
            Self::FilterData => "Filter Data",
            Self::FilterSeries => "Filter Series",
            Self::Graph => "Graph",
            Self::Sorting => "Sorting",
            Self::Special => "Special",
            Self::Transform => "Transform",
        }
    }
}

/// Where a function comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Graphite itself.
    Graphite,
    /// carbonapi, which has functions of its own.
    Carbonapi,
}

/// A function of the language.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Other names of it.
    pub aliases: &'static [&'static str],
    /// The group that it is shown in.
    pub group: Group,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether functions that group may use it to make one series of each group.
    pub aggregates: bool,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// What it answers.
    pub doc: &'static str,
    /// How it is evaluated.
    pub(crate) body: Body,
}

impl Function {
    /// Whether it takes a regular expression, of which a few bytes may take long.
    pub(crate) fn takes_regex(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.kind == Kind::Regex)
    }
}

/// How a function is evaluated.
#[derive(Debug)]
pub(crate) enum Body {
    /// From its arguments alone.
    Series(fn(Call) -> Result<Vec<Series>>),
    /// From its arguments alone, to lists of series.
    Lists(fn(Call) -> Result<Vec<Vec<Series>>>),
    /// With other targets, or with its arguments at other times.
    Again(for<'a> fn(Again<'a>) -> BoxFuture<'a, Result<Vec<Series>>>),
    /// By its expressions, by the evaluator.
    SeriesByTag,
}

/// A target that a function has evaluated.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// An argument.
    Expr(&'a Expr),
    /// A text that the function wrote.
    Text(&'a str),
    /// The argument that a harness gives by value.
    First,
}

/// Computation over values.
pub type Computation = Box<dyn FnOnce() -> std::result::Result<Vec<Series>, Error> + Send>;

/// Who evaluates targets for functions.
pub trait Evaluate: Send + Sync {
    /// The series of a target.
    fn target<'a>(&'a self, target: Target<'a>, scope: &'a Scope) -> BoxFuture<'a, Result<Vec<Series>>>;

    /// Times of events.
    fn events<'a>(&'a self, tags: &'a [String], from: i64, until: i64) -> BoxFuture<'a, Result<Vec<i64>>>;

    /// A random number from 0 to 1.
    fn random(&self) -> f64;

    /// Fails when the query is to end: called between pieces of work that are no jobs.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Runs computation over values in the name of the query.
    fn compute<'a>(&'a self, job: Computation) -> BoxFuture<'a, Result<Vec<Series>>>;
}

/// A call that has targets evaluated.
pub(crate) struct Again<'a> {
    pub(crate) call: Call,
    pub(crate) evaluator: &'a dyn Evaluate,
    pub(crate) first: Target<'a>,
}

impl Again<'_> {
    /// The first argument, in another scope.
    pub(crate) async fn first_in(&self, scope: &Scope) -> Result<Vec<Series>> {
        self.evaluator.target(self.first, scope).await
    }

    /// Computes in the name of the query.
    pub(crate) async fn compute(
        &self,
        job: impl FnOnce() -> Result<Vec<Series>> + Send + 'static,
    ) -> Result<Vec<Series>> {
        self.evaluator.compute(Box::new(job)).await
    }

    /// A target that the function wrote, in the times of the call.
    pub(crate) async fn written(&self, target: &str, scope: &Scope) -> Result<Vec<Series>> {
        self.evaluator.target(Target::Text(target), scope).await
    }
}

/// Calls a function with values: for tests and harnesses that have no target.
pub async fn call_with_values(
    name: &str,
    scope: Scope,
    arguments: Vec<crate::Argument>,
    named: Vec<(String, crate::Argument)>,
    evaluator: &dyn Evaluate,
) -> std::result::Result<crate::Argument, Error> {
    let function = crate::functions::find(name)?;
    let call = Call::bind(function, scope, arguments, named)?;
    match function.body {
        Body::Series(run) => run(call).map(crate::Argument::Series),
        Body::Lists(run) => run(call).map(crate::Argument::Lists),
        Body::Again(run) => {
            let again = Again { call, evaluator, first: Target::First };
            run(again).await.map(crate::Argument::Series)
        }
        Body::SeriesByTag => Err(Error::invalid("seriesByTag takes no values")),
    }
}
