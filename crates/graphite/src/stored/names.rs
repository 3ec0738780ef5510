//! The tags API over stored samples: names of series, tags and values.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use sandur_memory::job::spend;
use sandur_model::{MatchOp, Matcher};
use sandur_query::{Error, QueryContext, SeriesBatch, SeriesRequest, all_texts};

use super::matchers::{NAME, label_of, of_expressions, tag_of};
use super::named::{SeriesCondition, name_of, tags_of};
use super::{LITTLE_COMPARED, StoredSeries};
use crate::source::Selector;
use crate::tag_api::{NameFilter, Names, Wanted};
use crate::tags::TagExpression;

impl StoredSeries<'_> {
    /// The canonical names of the series whose tags match, in order.
    pub(super) async fn names_by_tags(
        &self,
        context: &QueryContext,
        expressions: &[TagExpression],
    ) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        self.each_series(context, expressions, |batch, series| {
            let name = name_of(batch, series);
            // The rollups of a series come directly before it.
            if found.last() == Some(&name) {
                return Ok(());
            }
            found.push(name);
            self.pay(context, found.len(), found.last().map(String::as_str).into_iter())
        })
        .await?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Calls a function with the tags of each series whose tags match.
    async fn each_series(
        &self,
        context: &QueryContext,
        expressions: &[TagExpression],
        mut look: impl FnMut(&SeriesBatch, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (matchers, is_exact) = context.compute_here(|| Ok(of_expressions(expressions)))?;
        let condition = Arc::new(SeriesCondition::by(Selector::Tags(expressions)));
        let _turn = context.turn().await?;
        let mut scan = self.samples.series(context, SeriesRequest::new(matchers, self.names_range())).await?;
        while let Some(batch) = scan.next().await? {
            context.check()?;
            let batch = Arc::new(batch);
            let matching =
                if is_exact { None } else { Some(matching_series(context, &condition, &batch).await?) };
            context.compute_here(|| {
                for series in 0..batch.labels.len() {
                    spend(256)?;
                    if matching.as_ref().is_none_or(|matching| matching[series]) {
                        look(&batch, series)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The first matching values of a label, at most the limit.
    async fn values_of(
        &self,
        context: &QueryContext,
        label: &str,
        mut matchers: Vec<Matcher>,
        wanted: (&NameFilter, usize),
    ) -> Result<Vec<String>, Error> {
        let (filter, limit) = wanted;
        if let NameFilter::Prefix(prefix) = filter {
            let narrowed = Matcher::new(label, MatchOp::Regex, format!("{}.+|{0}", regex::escape(prefix)));
            matchers.extend(narrowed.ok().filter(|_| !prefix.is_empty()));
        }
        let mut found: Vec<String> = Vec::new();
        let _turn = context.turn().await?;
        let range = self.names_range();
        let mut scan = self.samples.texts(context, SeriesRequest::new(matchers, range).values(label)).await?;
        while let Some(batch) = scan.next().await? {
            context.check()?;
            let (before, filter) = (found.len(), filter.clone());
            let is_little = batch.len().saturating_mul(filter.steps_per_byte()) <= LITTLE_COMPARED;
            let fitting = move || {
                let mut fitting = Vec::new();
                for value in batch.iter().filter(|value| !value.is_empty()) {
                    spend(value.len() + 16)?;
                    if fitting.len() == limit - before {
                        break;
                    }
                    if filter.fits(value) {
                        fitting.push(value.to_owned());
                    }
                }
                Ok(fitting)
            };
            found.extend(context.compute_sized(is_little, fitting).await?);
            self.pay(context, found.len(), found[before..].iter().map(String::as_str))?;
            if found.len() >= limit {
                break;
            }
        }
        Ok(found)
    }

    async fn tags_of_series(&self, context: &QueryContext, wanted: Wanted<'_>) -> Result<Vec<String>, Error> {
        let (matchers, is_exact) = context.compute_here(|| Ok(conditions(wanted.expressions)))?;
        let mut found = std::collections::BTreeSet::new();
        if is_exact {
            let _turn = context.turn().await?;
            let request = SeriesRequest::new(matchers, self.names_range()).names();
            let (labels, _held) = all_texts(self.samples, context, request).await?;
            found.extend(labels.iter().filter_map(|label| tag_of(label)).map(str::to_owned));
        } else {
            self.each_series(context, wanted.expressions, |batch, series| {
                for (tag, _) in tags_of(batch, series).iter() {
                    if found.contains(tag) {
                        continue;
                    }
                    self.pay(context, found.len() + 1, std::iter::once(tag))?;
                    found.insert(tag.to_owned());
                }
                Ok(())
            })
            .await?;
        }
        Ok(found.into_iter().filter(|tag| wanted.filter.fits(tag)).take(wanted.limit).collect())
    }

    /// Values with the number of series that have them; reads every series.
    async fn counted(
        &self,
        context: &QueryContext,
        tag: &str,
        wanted: Wanted<'_>,
    ) -> Result<Vec<(String, u64)>, Error> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        // The parts of a path, and the rollups of a series with tags, are adjacent and count as one series.
        let mut last = None;
        let has_tag = TagExpression::parse(&format!("{tag}!=")).map_err(invalid)?;
        let expressions: Vec<TagExpression> = wanted.expressions.iter().cloned().chain([has_tag]).collect();
        self.each_series(context, &expressions, |batch, series| {
            let tags = tags_of(batch, series);
            let name = name_of(batch, series);
            if last.as_ref() == Some(&name) {
                return Ok(());
            }
            last = Some(name);
            let Some(value) = tags.get(tag).filter(|value| wanted.filter.fits(value)) else { return Ok(()) };
            match counts.get_mut(value) {
                Some(count) => *count += 1,
                None => {
                    self.pay(context, counts.len() + 1, std::iter::once(value))?;
                    counts.insert(value.to_owned(), 1);
                }
            }
            Ok(())
        })
        .await?;
        Ok(counts.into_iter().take(wanted.limit).collect())
    }
}

/// For each series of a batch, whether it matches.
async fn matching_series(
    context: &QueryContext,
    condition: &Arc<SeriesCondition>,
    batch: &Arc<SeriesBatch>,
) -> Result<Vec<bool>, Error> {
    let (condition, batch) = (Arc::clone(condition), Arc::clone(batch));
    let is_little = batch.labels.len().saturating_mul(condition.steps()) <= LITTLE_COMPARED;
    let job = move || {
        let one = |series| {
            spend(256)?;
            Ok(condition.name(&batch, series).is_some())
        };
        (0..batch.labels.len()).map(one).collect()
    };
    context.compute_sized(is_little, job).await
}

fn invalid(error: crate::Error) -> Error {
    Error::Invalid(error.to_string())
}

/// The matchers of series whose tags match, or of all series if there are no expressions; and whether they
/// are exact.
fn conditions(expressions: &[TagExpression]) -> (Vec<Matcher>, bool) {
    match expressions.is_empty() {
        true => (Vec::new(), true),
        false => of_expressions(expressions),
    }
}

impl Names for StoredSeries<'_> {
    fn paths<'a>(
        &'a self,
        context: &'a QueryContext,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async move {
            let is_path = sandur_model::graphite_level(0);
            let is_path = is_path.and_then(|label| Matcher::new(label, MatchOp::NotEqual, "").ok());
            let all = NameFilter::Prefix(String::new());
            self.values_of(context, NAME, is_path.into_iter().collect(), (&all, limit)).await
        })
    }

    fn tags<'a>(
        &'a self,
        context: &'a QueryContext,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(self.tags_of_series(context, wanted))
    }

    fn values<'a>(
        &'a self,
        context: &'a QueryContext,
        tag: &'a str,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async move {
            let Some(label) = label_of(tag) else { return Ok(Vec::new()) };
            let (matchers, is_exact) = context.compute_here(|| Ok(conditions(wanted.expressions)))?;
            if is_exact {
                return self.values_of(context, label, matchers, (wanted.filter, wanted.limit)).await;
            }
            let counted = self.counted(context, tag, wanted).await?;
            Ok(counted.into_iter().map(|(value, _)| value).collect())
        })
    }

    fn counted_values<'a>(
        &'a self,
        context: &'a QueryContext,
        tag: &'a str,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, Result<Vec<(String, u64)>, Error>> {
        Box::pin(self.counted(context, tag, wanted))
    }

    /// A series exists from its first value on, so there is nothing to add.
    fn add<'a>(&'a self, _: &'a QueryContext, _: &'a [String]) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    /// A series exists only by its values, so these are deleted.
    fn remove<'a>(
        &'a self,
        context: &'a QueryContext,
        series: &'a [String],
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.forget_names(context, series))
    }
}
