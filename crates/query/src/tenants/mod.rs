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
use crate::joined_values::JoinedLabels;
use crate::series_batch::SampleScan;
use crate::series_index::{SeriesIndex, any_or_all, known_joined, known_series, known_values};
use crate::source::Versions;
use crate::text_scan::{TextBatch, TextScan};

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
    async fn streams_of_each(
        &self,
        context: &QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> Result<Vec<Arc<Labels>>, Error> {
        let lists = any_or_all(any_of);
        let mut found = BTreeSet::new();
        for list in &lists {
            let (contexts, matchers) = Self::chosen(context, list)?;
            for one in contexts {
                let streams = self.0.streams(&one, vec![matchers.clone()], range).await?;
                found.extend(streams.iter().map(|labels| with_tenant(labels, one.tenant())));
            }
        }
        Ok(found.into_iter().collect())
    }

    async fn names_of_each(
        &self,
        context: &QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let (contexts, matchers) = Self::chosen(context, &matchers)?;
        let mut names = BTreeSet::from([TENANT_LABEL.to_owned()]);
        for one in contexts {
            names.extend(self.0.label_names(&one, matchers.clone(), range).await?);
        }
        Ok(names.into_iter().collect())
    }

    async fn values_of_each(
        &self,
        context: &QueryContext,
        name: String,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let (contexts, matchers) = Self::chosen(context, &matchers)?;
        if name == TENANT_LABEL {
            return Ok(contexts.iter().map(|one| one.tenant().to_string()).collect());
        }
        let name = if name == ORIGINAL_LABEL { TENANT_LABEL.to_owned() } else { name };
        let mut values = BTreeSet::new();
        for one in contexts {
            values.extend(self.0.label_values(&one, name.clone(), matchers.clone(), range).await?);
        }
        Ok(values.into_iter().collect())
    }
}

impl<S: SeriesIndex + ?Sized> SeriesIndex for TenantsSource<S> {
    fn streams<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<Arc<Labels>>, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(self.streams_of_each(context, any_of, range)),
            false => self.0.streams(context, any_of, range),
        }
    }

    fn label_names<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(self.names_of_each(context, matchers, range)),
            false => self.0.label_names(context, matchers, range),
        }
    }

    fn label_values<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(self.values_of_each(context, name, matchers, range)),
            false => self.0.label_values(context, name, matchers, range),
        }
    }

    fn value_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(known_values(self, context, name, any_of, range)),
            false => self.0.value_scan(context, name, any_of, range),
        }
    }

    fn joined_values<'a>(
        &'a self,
        context: &'a QueryContext,
        wanted: JoinedLabels,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<TextBatch, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(known_joined(self, context, wanted, matchers, range)),
            false => self.0.joined_values(context, wanted, matchers, range),
        }
    }

    fn series_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(known_series(self, context, any_of, range)),
            false => self.0.series_scan(context, any_of, range),
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
