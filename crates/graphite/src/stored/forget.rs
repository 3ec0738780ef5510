//! Deletes series by name.
//!
//! **Invariant.** A deleted series has exactly the tags of the name. The implementation of [`Forget`]
//! excludes series with other labels, including ones that appear later.

use std::sync::Arc;

use sandur_model::{Matcher, TimeRange};
use sandur_query::{Error, QueryContext, SeriesRequest, all_texts};

use super::StoredSeries;
use super::deletes::Forget;
use super::matchers::label_of;
use crate::tags::parse_name;

/// The most names of one request.
const NAMES_MAX: usize = 1_000;

impl StoredSeries<'_> {
    /// Enables deletes, which fail otherwise.
    pub fn deleting<'a>(&'a self, forget: &'a dyn Forget) -> StoredSeries<'a> {
        StoredSeries {
            events: self.events,
            forget: Some(forget),
            ..StoredSeries::new(self.samples, Arc::clone(&self.rules), self.options)
        }
    }

    /// Deletes the series with these names; unknown names are ignored.
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

    /// The label matchers of the series with a name; `None` if there is no such series.
    async fn exactly(&self, context: &QueryContext, name: &str) -> Result<Option<Vec<Matcher>>, Error> {
        let invalid = |error: &dyn std::fmt::Display| Error::Invalid(error.to_string());
        let tags = parse_name(name).map_err(|error| invalid(&error))?;
        let mut matchers = Vec::new();
        for (tag, value) in tags.iter() {
            let Some(label) = label_of(tag) else { return Ok(None) };
            matchers.push(Matcher::equal(label, value));
        }
        let request = SeriesRequest::new(matchers.clone(), TimeRange::ALL).names();
        let (labels, _) = all_texts(self.samples, context, request).await?;
        Ok((!labels.is_empty()).then_some(matchers))
    }
}
