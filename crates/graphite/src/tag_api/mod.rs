//! `/tags`: tags, their values and series by them, as graphite-web's tag database answers, and `/functions`.
//!
//! What is asked for comes from [`Names`]; answers are bounded by the limit of the request and by
//! [`LIMIT_MAX`].

mod change;
mod complete;
mod details;
mod find_series;
mod functions;
mod list;

use futures_util::future::BoxFuture;
use sandur_base::job::reserve_exactly;
use sandur_model::TextPattern;
use sandur_query::QueryContext;

use crate::encoding::json::{Layout, quoted, wrapped};
use crate::error::{Error, Result};
use crate::number::parse_int;
use crate::pattern::python_beginning;
use crate::render::Rendered;
use crate::tags::TagExpression;

pub use change::{delete_series, tag_multi_series, tag_series};
pub use complete::{complete_tags, complete_values};
pub use details::tag_details;
pub use find_series::find_series;
pub use functions::functions;
pub use list::list_tags;

/// Most names of an answer, whatever the request asks for.
pub const LIMIT_MAX: usize = 100_000;
/// Names that are offered to complete one that is being typed, when the request does not say.
const COMPLETED: usize = 100;
/// Fewer names than this are written where they are.
const LITTLE: usize = 256;
/// Most expressions or series of a request.
const PARTS_MAX: usize = 10_000;

/// What the names that are asked for look like.
#[derive(Clone, Debug)]
pub enum NameFilter {
    /// They begin so; all do with nothing.
    Prefix(String),
    /// Their begin fits an expression.
    Regex(TextPattern),
}

impl NameFilter {
    /// Whether a name fits. In a job that was stopped (see [`sandur_base::job`]) the answer is of no use and
    /// is dropped.
    pub fn fits(&self, name: &str) -> bool {
        match self {
            Self::Prefix(prefix) => name.starts_with(prefix),
            Self::Regex(pattern) => pattern.matches(name),
        }
    }

    /// The most steps that a byte of a name may take.
    pub(crate) fn steps_per_byte(&self) -> usize {
        match self {
            Self::Prefix(_) => 1,
            Self::Regex(pattern) => pattern.steps_per_byte().max(1),
        }
    }
}

/// Which names are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Only of series whose tags fit all of these; of all series when there is none.
    pub expressions: &'a [TagExpression],
    /// What they look like.
    pub filter: &'a NameFilter,
    /// How many at most, the first in their order.
    pub limit: usize,
}

/// Names of stored series. An untagged series has the tag `name` alone.
pub trait Names: Send + Sync {
    /// Paths of series without tags, in order, at most so many.
    fn paths<'a>(
        &'a self,
        context: &'a QueryContext,
        limit: usize,
    ) -> BoxFuture<'a, std::result::Result<Vec<String>, sandur_query::Error>>;

    /// Names of tags, in order.
    fn tags<'a>(
        &'a self,
        context: &'a QueryContext,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, std::result::Result<Vec<String>, sandur_query::Error>>;

    /// Values of a tag, in order.
    fn values<'a>(
        &'a self,
        context: &'a QueryContext,
        tag: &'a str,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, std::result::Result<Vec<String>, sandur_query::Error>>;

    /// The same, each with the number of series that have it.
    fn counted_values<'a>(
        &'a self,
        context: &'a QueryContext,
        tag: &'a str,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, std::result::Result<Vec<(String, u64)>, sandur_query::Error>>;

    /// Makes series known that have no values yet, by their canonical names.
    fn add<'a>(
        &'a self,
        context: &'a QueryContext,
        series: &'a [String],
    ) -> BoxFuture<'a, std::result::Result<(), sandur_query::Error>>;

    /// Forgets series; those that are not known are none.
    fn remove<'a>(
        &'a self,
        context: &'a QueryContext,
        series: &'a [String],
    ) -> BoxFuture<'a, std::result::Result<(), sandur_query::Error>>;
}

/// The parameters of a request.
#[derive(Clone, Copy, Debug)]
struct Parameters<'a>(&'a [(String, String)]);

impl<'a> Parameters<'a> {
    fn last(self, name: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// One that comes several times, or several times with `[]` behind its name.
    fn all(self, name: &str) -> Result<Vec<&'a str>> {
        let of = |name: &str| -> Vec<&'a str> {
            self.0.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect()
        };
        let mut all = of(name);
        if all.is_empty() {
            all = of(&format!("{name}[]"));
        }
        match all.len() > PARTS_MAX {
            true => Err(Error::Limit(format!("more than {PARTS_MAX} of '{name}'; ask in several requests"))),
            false => Ok(all),
        }
    }

    fn expressions(self) -> Result<Vec<&'a str>> {
        self.all("expr")
    }

    fn limit(self, instead: usize) -> Result<usize> {
        let Some(text) = self.last("limit") else { return Ok(instead) };
        let limit =
            parse_int(text).ok_or_else(|| Error::invalid(format!("the limit '{text}' is no number")))?;
        Ok(usize::try_from(limit).unwrap_or(LIMIT_MAX).min(LIMIT_MAX))
    }

    /// The expression that names shall begin with, compiled in the name of the query.
    async fn filter(self, context: &QueryContext) -> Result<NameFilter> {
        let Some(text) = self.last("filter").filter(|text| !text.is_empty()) else {
            return Ok(NameFilter::Prefix(String::new()));
        };
        let text = text.to_owned();
        Ok(NameFilter::Regex(context.compute(move || Ok(python_beginning(&text))).await??))
    }

    fn prefix(self, name: &str) -> NameFilter {
        NameFilter::Prefix(self.last(name).unwrap_or_default().to_owned())
    }

    fn layout(self) -> Layout {
        Layout::new(self.last("pretty").is_some_and(|text| !text.is_empty()))
    }

    /// A list of names as the answer.
    async fn list(self, context: &QueryContext, names: Vec<String>) -> Result<Rendered> {
        let (layout, is_little) = (self.layout(), names.len() < LITTLE);
        let job = move || {
            let bytes = names.iter().map(|name| 64 + 3 * name.len()).sum::<usize>();
            let _held = reserve_exactly(bytes as u64)?;
            let parts: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            Ok(layout.join(('[', ']'), 0, &parts))
        };
        Ok(self.answer(context.compute_sized(is_little, job).await?))
    }

    /// The answer, which is JSON.
    fn answer(self, body: String) -> Rendered {
        wrapped("application/json", body.into_bytes(), self.last("jsonp"))
    }
}
