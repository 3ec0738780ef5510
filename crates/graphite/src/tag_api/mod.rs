//! `/tags`: tags, their values and the series with them, in the form of graphite-web's tag database; also
//! `/functions`.
//!
//! The data comes from [`Names`]. Answers are bounded by the limit of the request and by [`LIMIT_MAX`].

mod change;
mod complete;
mod details;
mod find_series;
mod functions;
mod list;

use futures_util::future::BoxFuture;
use sandur_memory::job::reserve_exactly;
use sandur_model::TextPattern;
use sandur_query::QueryContext;

use crate::encoding::json::{Layout, quoted, wrapped};
use crate::error::{Error, Result};
use crate::number::parse_int;
use crate::pattern::python_beginning;
use crate::rendered::Rendered;
use crate::tags::TagExpression;

pub use change::{delete_series, tag_multi_series, tag_series};
pub use complete::{complete_tags, complete_values};
pub use details::tag_details;
pub use find_series::find_series;
pub use functions::functions;
pub use list::list_tags;

/// The most names of an answer, whatever the limit of the request.
pub const LIMIT_MAX: usize = 100_000;
/// The number of completions if the request has no limit.
const COMPLETED: usize = 100;
/// Fewer names are written in place, without a job on the CPU pool.
const LITTLE: usize = 256;
/// The most expressions or series of a request.
const PARTS_MAX: usize = 10_000;

/// A filter for names.
#[derive(Clone, Debug)]
pub enum NameFilter {
    /// Names with this prefix; the empty prefix matches all names.
    Prefix(String),
    /// Names of which an expression matches the beginning.
    Regex(TextPattern),
}

impl NameFilter {
    /// Whether a name matches. In a cancelled job (see [`sandur_memory::job`]) the result is arbitrary and
    /// will be dropped.
    pub fn fits(&self, name: &str) -> bool {
        match self {
            Self::Prefix(prefix) => name.starts_with(prefix),
            Self::Regex(pattern) => pattern.matches(name),
        }
    }

    /// The most steps of the filter per byte of a name.
    pub(crate) fn steps_per_byte(&self) -> usize {
        match self {
            Self::Prefix(_) => 1,
            Self::Regex(pattern) => pattern.steps_per_byte().max(1),
        }
    }
}

/// The parameters of a request for names.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Only names of series whose tags match all of these; of all series if it is empty.
    pub expressions: &'a [TagExpression],
    /// The filter for the names.
    pub filter: &'a NameFilter,
    /// The most names; the first ones in order are returned.
    pub limit: usize,
}

/// The names of stored series. An untagged series has only the tag `name`.
pub trait Names: Send + Sync {
    /// The paths of series without tags, in order, at most `limit`.
    fn paths<'a>(
        &'a self,
        context: &'a QueryContext,
        limit: usize,
    ) -> BoxFuture<'a, std::result::Result<Vec<String>, sandur_query::Error>>;

    /// The names of tags, in order.
    fn tags<'a>(
        &'a self,
        context: &'a QueryContext,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, std::result::Result<Vec<String>, sandur_query::Error>>;

    /// The values of a tag, in order.
    fn values<'a>(
        &'a self,
        context: &'a QueryContext,
        tag: &'a str,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, std::result::Result<Vec<String>, sandur_query::Error>>;

    /// The values of a tag, in order, each with the number of series that have it.
    fn counted_values<'a>(
        &'a self,
        context: &'a QueryContext,
        tag: &'a str,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, std::result::Result<Vec<(String, u64)>, sandur_query::Error>>;

    /// Registers series that have no values yet, by canonical name.
    fn add<'a>(
        &'a self,
        context: &'a QueryContext,
        series: &'a [String],
    ) -> BoxFuture<'a, std::result::Result<(), sandur_query::Error>>;

    /// Deletes series; unknown ones are ignored.
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

    /// The values of a parameter that may occur several times, under its name or its name with `[]`
    /// appended.
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
            parse_int(text).ok_or_else(|| Error::invalid(format!("the limit '{text}' is not a number")))?;
        Ok(usize::try_from(limit).unwrap_or(LIMIT_MAX).min(LIMIT_MAX))
    }

    /// The filter for the beginning of names, compiled as a job of the query.
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

    /// Answers with a list of names.
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

    /// Answers with JSON.
    fn answer(self, body: String) -> Rendered {
        wrapped("application/json", body.into_bytes(), self.last("jsonp"))
    }
}
