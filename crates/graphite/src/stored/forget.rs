//! Series that are deleted by their name.
//!
//! **Invariant.** What is deleted has exactly the tags of the name: each other tag that any of the series has
//! is named as missing.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sandur_model::{MatchOp, Matcher, TimeRange};
use sandur_query::{Error, QueryContext};

use super::StoredSeries;
use super::matchers::{label_of, tag_of};
use crate::tags::parse_name;

/// Most names of one request.
const NAMES_MAX: usize = 1_000;
/// Most tags of other series that one name is told apart by.
const OTHERS_MAX: usize = 1_000;

/// Deletes series with their values.
pub trait Forget: Send + Sync {
    /// The values until now of the series that match.
    fn forget<'a>(&'a self, matchers: Vec<Matcher>) -> BoxFuture<'a, Result<(), Error>>;
}

impl StoredSeries<'_> {
    /// The same with deletes, which are refused otherwise.
    pub fn deleting<'a>(&'a self, forget: &'a dyn Forget) -> StoredSeries<'a> {
        StoredSeries {
            events: self.events,
            forget: Some(forget),
            ..StoredSeries::new(self.samples, Arc::clone(&self.rules), self.options)
        }
    }

    /// Deletes the series of these names; names that none has are left out.
    pub(super) async fn forget_names(&self, context: &QueryContext, names: &[String]) -> Result<(), Error> {
        let Some(forget) = self.forget else {
            return Err(Error::Invalid("series cannot be deleted here".to_owned()));
        };
        if names.len() > NAMES_MAX {
            return Err(Error::Limit(format!(
                "{} series are to be deleted; {NAMES_MAX} may be in one request",
                names.len()
            )));
        }
        let mut all = Vec::new();
        for name in names {
            all.extend(self.exactly(context, name).await?);
        }
        for matchers in all {
            forget.forget(matchers).await?;
        }
        Ok(())
    }

    /// Conditions of the series of a name; nothing when there is none.
    async fn exactly(&self, context: &QueryContext, name: &str) -> Result<Option<Vec<Matcher>>, Error> {
        let invalid = |error: &dyn std::fmt::Display| Error::Invalid(error.to_string());
        let tags = parse_name(name).map_err(|error| invalid(&error))?;
        let mut matchers = Vec::new();
        for (tag, value) in tags.iter() {
            let Some(label) = label_of(tag) else { return Ok(None) };
            matchers.push(Matcher::new(label, MatchOp::Equal, value).map_err(|error| invalid(&error))?);
        }
        let labels = self.samples.label_names(context, matchers.clone(), TimeRange::ALL).await?;
        if labels.is_empty() {
            return Ok(None);
        }
        let is_other = |label: &&String| tag_of(label).is_some_and(|tag| tags.get(tag).is_none());
        let others: Vec<&String> = labels.iter().filter(is_other).collect();
        if others.len() > OTHERS_MAX {
            return Err(Error::Limit(format!(
                "series with the tags of '{name:.200}' have more than {OTHERS_MAX} other tags; delete it \
                 with /api/v1/admin/tsdb/delete_series"
            )));
        }
        for label in others.into_iter().map(String::as_str) {
            matchers.push(Matcher::new(label, MatchOp::Equal, "").map_err(|error| invalid(&error))?);
        }
        Ok(Some(matchers))
    }
}
