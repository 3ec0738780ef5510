//! Series of several tenants, one tenant after the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_memory::Reservation;
use sandur_model::TenantId;

use super::{ORIGINAL_LABEL, TENANT_LABEL, TenantsSource, with_tenant};
use crate::context::QueryContext;
use crate::error::Error;
use crate::sample_source::{
    Exemplars, Metadata, MetadataSelection, SampleSelection, SampleSource, SeriesExemplars,
};
use crate::series_batch::{Dictionary, LabelIds, SampleScan, SeriesBatch};
use crate::series_index::SeriesRequest;

impl<S: SampleSource + ?Sized> TenantsSource<S> {
    async fn select_each(
        &self,
        context: &QueryContext,
        mut selection: SampleSelection,
    ) -> Result<Box<dyn SampleScan>, Error> {
        let (contexts, matchers) = Self::chosen(context, &selection.matchers)?;
        selection.matchers = matchers;
        let names_tenant = selection.wants(TENANT_LABEL);
        // A series shows its own `__tenant_id__` label under `ORIGINAL_LABEL`.
        let shows_original = selection.wants(ORIGINAL_LABEL);
        if let Some(labels) = &mut selection.labels {
            labels.retain(|label| label != TENANT_LABEL && label != ORIGINAL_LABEL);
            labels.extend(shows_original.then(|| TENANT_LABEL.to_owned()));
        }
        let mut scans = VecDeque::with_capacity(contexts.len());
        for one in contexts {
            let scan = self.0.select(&one, selection.clone()).await?;
            scans.push_back(TenantScan { tenant: one.tenant().clone(), scan });
        }
        Ok(Box::new(Chained { scans, names_tenant }))
    }

    /// A series that matches several of the lists appears once.
    async fn exemplars_of_each(
        &self,
        context: &QueryContext,
        SeriesRequest { any_of, range }: SeriesRequest,
    ) -> Result<Exemplars, Error> {
        let (mut found, mut held) = (BTreeMap::new(), None);
        for list in &any_of {
            let (contexts, matchers) = Self::chosen(context, list)?;
            for one in contexts {
                let more = self.0.exemplars(&one, SeriesRequest::new(matchers.clone(), range)).await?;
                let shown = |of: SeriesExemplars| (with_tenant(&of.labels, one.tenant()), of.exemplars);
                found.extend(more.series.into_iter().map(shown));
                join_held(&mut held, more.held);
            }
        }
        let series = found.into_iter().map(|(labels, exemplars)| SeriesExemplars { labels, exemplars });
        Ok(Exemplars { series: series.collect(), held })
    }

    async fn metadata_of_each(
        &self,
        context: &QueryContext,
        selection: MetadataSelection,
    ) -> Result<Metadata, Error> {
        let (mut found, mut held) = (BTreeSet::new(), None);
        for tenant in context.tenant().each() {
            let more = self.0.metadata(&context.of_tenant(tenant), selection.clone()).await?;
            found.extend(more.metrics);
            join_held(&mut held, more.held);
        }
        let metrics = selection.of_sorted(&found).into_iter().cloned().collect();
        Ok(Metadata { metrics, held })
    }
}

impl<S: SampleSource + ?Sized> SampleSource for TenantsSource<S> {
    fn select<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: SampleSelection,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(self.select_each(context, selection)),
            false => self.0.select(context, selection),
        }
    }

    fn exemplars<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Exemplars, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(self.exemplars_of_each(context, request)),
            false => self.0.exemplars(context, request),
        }
    }

    fn metadata<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: MetadataSelection,
    ) -> BoxFuture<'a, Result<Metadata, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(self.metadata_of_each(context, selection)),
            false => self.0.metadata(context, selection),
        }
    }
}

/// Adds a reservation to that of a result.
fn join_held(all: &mut Option<Reservation>, more: Option<Reservation>) {
    match (all, more) {
        (Some(all), Some(more)) => all.absorb(more),
        (all, more) => *all = more.or(all.take()),
    }
}

/// The scan of one tenant.
struct TenantScan {
    tenant: TenantId,
    scan: Box<dyn SampleScan>,
}

/// Concatenates the scans of several tenants.
struct Chained {
    scans: VecDeque<TenantScan>,
    names_tenant: bool,
}

impl Chained {
    async fn take(&mut self) -> Result<Option<SeriesBatch>, Error> {
        while let Some(first) = self.scans.front_mut() {
            match first.scan.next().await? {
                Some(batch) => return Ok(Some(of_tenant(batch, &first.tenant, self.names_tenant))),
                None => drop(self.scans.pop_front()),
            }
        }
        Ok(None)
    }
}

impl SampleScan for Chained {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        Box::pin(self.take())
    }
}

/// Ids of the texts that a batch has in addition to its own dictionary.
const TENANT_NAME: u32 = u32::MAX;
const ORIGINAL_NAME: u32 = u32::MAX - 1;
const TENANT: u32 = u32::MAX - 2;

/// The dictionary of a tenant's batch, extended by the texts of the tenant labels.
struct TenantTexts {
    inner: Arc<dyn Dictionary>,
    tenant: TenantId,
}

impl Dictionary for TenantTexts {
    fn text(&self, id: u32) -> &str {
        match id {
            TENANT_NAME => TENANT_LABEL,
            ORIGINAL_NAME => ORIGINAL_LABEL,
            TENANT => self.tenant.as_str(),
            id => self.inner.text(id),
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }
}

/// The batch as a result over several tenants shows it.
fn of_tenant(mut batch: SeriesBatch, tenant: &TenantId, names_tenant: bool) -> SeriesBatch {
    let inner = Arc::clone(&batch.dictionary);
    let texts = TenantTexts { inner, tenant: tenant.clone() };
    for labels in &mut batch.labels {
        *labels = labels_of_tenant(&texts, labels, names_tenant);
    }
    batch.dictionary = Arc::new(texts);
    batch
}

fn labels_of_tenant(texts: &TenantTexts, labels: &LabelIds, names_tenant: bool) -> LabelIds {
    let shown = |(name, value): &(u32, u32)| match texts.text(*name) {
        TENANT_LABEL => (ORIGINAL_NAME, *value),
        _ => (*name, *value),
    };
    let of_tenant = names_tenant.then_some((TENANT_NAME, TENANT));
    let mut pairs: Vec<(u32, u32)> = labels.iter().map(shown).chain(of_tenant).collect();
    pairs.sort_by(|a, b| texts.text(a.0).cmp(texts.text(b.0)));
    pairs.into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::{Labels, MatchOp, Matcher};
    use sandur_runtime::Env;

    use super::*;
    use crate::memory_samples::MemorySeries;

    async fn series(matchers: Vec<Matcher>, labels: Option<&[&str]>) -> Vec<String> {
        let mut stored = MemorySeries::default();
        for own in [&[("__name__", "up"), ("job", "a")][..], &[("__name__", "up"), ("__tenant_id__", "own")]]
        {
            stored.edit(&Labels::from_pairs(own.iter().copied()), |samples| {
                samples.times.push(5);
                samples.values.push(1.0);
            });
        }
        let source = TenantsSource::new(Arc::new(stored));
        let tenants = TenantId::several(["b", "a"].map(|id| TenantId::new(id).unwrap())).unwrap();
        let budget = MemoryBudget::root("query", 1 << 20);
        let context = QueryContext::new(Env::simulated(1, 0), tenants, budget, Duration::from_secs(9));
        let mut selection = SampleSelection::all(matchers, 0, 10);
        selection.labels = labels.map(|labels| labels.iter().map(|&label| label.to_owned()).collect());
        let mut scan = source.select(&context, selection).await.unwrap();
        let mut found = Vec::new();
        while let Some(batch) = scan.next().await.unwrap() {
            for series in 0..batch.labels.len() {
                let names: Vec<&str> = batch.pairs(series).map(|(name, _)| name).collect();
                assert!(names.is_sorted(), "{names:?}");
                found.push(Labels::from_pairs(batch.pairs(series)).to_string());
            }
        }
        found
    }

    #[tokio::test]
    async fn series_of_several_tenants_have_the_label_of_their_tenant() {
        let expected = [
            r#"{__name__="up", __tenant_id__="a", job="a"}"#,
            r#"{__name__="up", __tenant_id__="a", original___tenant_id__="own"}"#,
            r#"{__name__="up", __tenant_id__="b", job="a"}"#,
            r#"{__name__="up", __tenant_id__="b", original___tenant_id__="own"}"#,
        ];
        assert_eq!(series(Vec::new(), None).await, expected);
        let only_b = Matcher::new("__tenant_id__", MatchOp::Equal, "b").unwrap();
        assert_eq!(series(vec![only_b], None).await, expected[2..]);
        assert_eq!(series(Vec::new(), Some(&["job"])).await[0], r#"{job="a"}"#);
        let original = series(Vec::new(), Some(&["original___tenant_id__"])).await;
        assert_eq!(original[..2], ["{}", r#"{original___tenant_id__="own"}"#]);
        assert_eq!(series(Vec::new(), Some(&["__tenant_id__"])).await[3], r#"{__tenant_id__="b"}"#);
    }
}
