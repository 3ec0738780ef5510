//! Queries over several tenants, for either signal: the rows of all tenants, distinguished by the label
//! `__tenant_id__`.
//!
//! A query of one tenant is passed on unchanged. In a query of several tenants, matchers on
//! `__tenant_id__` select tenants and are not applied to streams; if a stream itself has a label
//! `__tenant_id__`, it is shown as `original___tenant_id__`.

mod logs;
mod samples;

use std::collections::BTreeSet;
use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_model::{Labels, Matcher, TenantId, TimeRange};

use crate::context::QueryContext;
use crate::error::Error;
use crate::holdings::Holding;
use crate::series_batch::SampleScan;
use crate::series_index::{
    KnownSeries, SeriesIndex, SeriesRequest, TextRequest, WantedTexts, all_series, series_bytes,
    texts_of_series,
};
use crate::source::Versions;
use crate::text_scan::{DistinctTexts, TextScan};

/// The label that contains the tenant.
const TENANT_LABEL: &str = "__tenant_id__";
/// The name under which a stream's own `__tenant_id__` label is shown.
const ORIGINAL_LABEL: &str = "original___tenant_id__";

/// A source of one signal that also supports queries over several tenants. It implements each source
/// trait of this crate that the inner source implements.
pub struct TenantsSource<S: ?Sized>(Arc<S>);

impl<S: ?Sized> TenantsSource<S> {
    /// Wraps a source.
    pub fn new(inner: Arc<S>) -> Self {
        Self(inner)
    }

    /// Contexts of the tenants that the matchers select, and the remaining matchers for streams.
    fn chosen(
        context: &QueryContext,
        matchers: &[Matcher],
    ) -> Result<(Vec<QueryContext>, Vec<Matcher>), Error> {
        let (of_tenants, rest): (Vec<&Matcher>, Vec<&Matcher>) =
            matchers.iter().partition(|m| m.name() == TENANT_LABEL);
        let original = |m: &Matcher| match m.name() {
            ORIGINAL_LABEL => Matcher::new(TENANT_LABEL, m.op(), m.value())
                .map_err(|error| Error::Invalid(error.to_string())),
            _ => Ok(m.clone()),
        };
        let rest = rest.into_iter().map(original).collect::<Result<_, Error>>()?;
        let fits = |tenant: &TenantId| of_tenants.iter().all(|m| m.matches(tenant.as_str()));
        let contexts = context.tenant().each().filter(fits).map(|tenant| context.of_tenant(tenant));
        Ok((contexts.collect(), rest))
    }
}

impl<S: SeriesIndex + ?Sized> TenantsSource<S> {
    async fn series_of_each(
        &self,
        context: &QueryContext,
        request: SeriesRequest,
    ) -> Result<Box<dyn SampleScan>, Error> {
        let (mut found, mut memory) = (BTreeSet::new(), context.budget().reserve(0)?);
        for list in &request.any_of {
            let (contexts, matchers) = Self::chosen(context, list)?;
            for one in contexts {
                let of_one = SeriesRequest::new(matchers.clone(), request.range);
                let (series, _held) = all_series(&*self.0, &one, of_one).await?;
                for labels in series.iter().map(|labels| with_tenant(labels, one.tenant())) {
                    let bytes = series_bytes(&labels);
                    if found.insert(labels) {
                        memory.grow(bytes)?;
                    }
                }
            }
        }
        Ok(Box::new(KnownSeries::held(found.into_iter().collect(), memory)))
    }

    async fn texts_of_each(
        &self,
        context: &QueryContext,
        TextRequest { mut wanted, of }: TextRequest,
    ) -> Result<Box<dyn TextScan>, Error> {
        let mut found = DistinctTexts::new(context)?;
        match &mut wanted {
            WantedTexts::Joined(_) => return texts_of_series(self, context, of.texts(wanted)).await,
            WantedTexts::Names => found.add(TENANT_LABEL)?,
            WantedTexts::Values(name) if name == ORIGINAL_LABEL => TENANT_LABEL.clone_into(name),
            WantedTexts::Values(name) if name == TENANT_LABEL => {
                for list in &of.any_of {
                    let (contexts, _) = Self::chosen(context, list)?;
                    contexts.iter().try_for_each(|one| found.add(one.tenant().as_str()))?;
                }
                return Ok(found.into_scan());
            }
            WantedTexts::Values(_) => {}
        }
        for list in &of.any_of {
            let (contexts, matchers) = Self::chosen(context, list)?;
            for one in contexts {
                let of_one = SeriesRequest::new(matchers.clone(), of.range).texts(wanted.clone());
                let mut scan = self.0.texts(&one, of_one).await?;
                while let Some(batch) = scan.next().await? {
                    batch.iter().try_for_each(|text| found.add(text))?;
                }
            }
        }
        Ok(found.into_scan())
    }
}

impl<S: SeriesIndex + ?Sized> SeriesIndex for TenantsSource<S> {
    fn series<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(self.series_of_each(context, request)),
            false => self.0.series(context, request),
        }
    }

    fn texts<'a>(
        &'a self,
        context: &'a QueryContext,
        request: TextRequest,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(self.texts_of_each(context, request)),
            false => self.0.texts(context, request),
        }
    }
}

impl<S: Versions + ?Sized> Versions for TenantsSource<S> {
    fn holdings(&self, context: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        if !context.tenant().is_several() {
            return self.0.holdings(context, range);
        }
        let mut all = Vec::new();
        for tenant in context.tenant().each() {
            all.extend(self.0.holdings(&context.of_tenant(tenant), range)?);
        }
        Some(all)
    }

    fn delete_generation(&self, tenant: &TenantId) -> u64 {
        // Each generation only grows, so the sum changes whenever one does.
        tenant.each().map(|one| self.0.delete_generation(&one)).fold(0, u64::wrapping_add)
    }
}

/// The labels as a result over several tenants shows them.
fn with_tenant(labels: &Labels, tenant: &TenantId) -> Arc<Labels> {
    let shown = |(name, value)| if name == TENANT_LABEL { (ORIGINAL_LABEL, value) } else { (name, value) };
    Arc::new(Labels::from_pairs(labels.iter().map(shown).chain([(TENANT_LABEL, tenant.as_str())])))
}
