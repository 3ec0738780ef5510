//! Log rows of several tenants, merged in the requested order.

use sandur_base::BoxFuture;
use sandur_model::{LineAutomaton, LineColumn, LineReducer, LogPage, Matcher, TenantId};

use super::{TENANT_LABEL, TenantsSource, with_tenant};
use crate::context::QueryContext;
use crate::error::Error;
use crate::source::{
    CountsTask, Follow, LogSource, Order, PageTask, Scan, ScanItem, Selection, StreamCounts, StreamVolume,
    StreamsRequest,
};

impl<S: LogSource + ?Sized> TenantsSource<S> {
    async fn scan_each(
        &self,
        context: &QueryContext,
        mut selection: Selection,
    ) -> Result<Box<dyn Scan>, Error> {
        let (contexts, matchers) = Self::chosen(context, &selection.matchers)?;
        selection.matchers = matchers;
        // Every row has this label, so metadata cannot decide its value.
        selection.counts_by.retain(|label| label != TENANT_LABEL);
        let mut scans = Vec::with_capacity(contexts.len());
        for one in contexts {
            let scan = self.0.scan(&one, selection.clone()).await?;
            scans.push(TenantScan { tenant: one.tenant().clone(), scan, next: None });
        }
        Ok(Box::new(Merged { scans, order: selection.order }))
    }

    async fn volumes_of_each(
        &self,
        context: &QueryContext,
        request: StreamsRequest,
    ) -> Result<Vec<StreamVolume>, Error> {
        let (contexts, matchers) = Self::chosen(context, &request.matchers)?;
        let of_each = StreamsRequest { matchers, ..request };
        let mut volumes = Vec::new();
        for one in contexts {
            volumes.extend(self.0.volumes(&one, of_each.clone()).await?);
        }
        Ok(volumes)
    }
}

impl<S: LogSource + ?Sized> LogSource for TenantsSource<S> {
    fn scan<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Box<dyn Scan>, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(self.scan_each(context, selection)),
            false => self.0.scan(context, selection),
        }
    }

    fn volumes<'a>(
        &'a self,
        context: &'a QueryContext,
        request: StreamsRequest,
    ) -> BoxFuture<'a, Result<Vec<StreamVolume>, Error>> {
        match context.tenant().is_several() {
            true => Box::pin(self.volumes_of_each(context, request)),
            false => self.0.volumes(context, request),
        }
    }

    fn follow(&self, context: &QueryContext, matchers: Vec<Matcher>) -> Result<Box<dyn Follow>, Error> {
        match context.tenant().is_several() {
            true => Err(Error::Invalid("multiple org IDs present".to_owned())),
            false => self.0.follow(context, matchers),
        }
    }
}

/// The scan of one tenant, and its next item.
struct TenantScan {
    tenant: TenantId,
    scan: Box<dyn Scan>,
    next: Option<ScanItem>,
}

/// Merges the scans of several tenants in the requested order.
struct Merged {
    scans: Vec<TenantScan>,
    order: Order,
}

impl Merged {
    async fn take(&mut self) -> Result<Option<ScanItem>, Error> {
        let mut n = 0;
        while let Some(scan) = self.scans.get_mut(n) {
            if scan.next.is_none() {
                scan.next = scan.scan.next().await?;
            }
            if scan.next.is_some() { n += 1 } else { drop(self.scans.remove(n)) }
        }
        let rank = |scan: &TenantScan| match (&scan.next, self.order) {
            (Some(ScanItem::Page(page)), Order::NewestFirst) => -i128::from(page.bounds().1),
            (Some(ScanItem::Page(page)), Order::OldestFirst) => i128::from(page.bounds().0),
            _ => i128::MIN,
        };
        let Some(best) = self.scans.iter_mut().min_by_key(|scan| rank(scan)) else { return Ok(None) };
        let tenant = best.tenant.clone();
        Ok(best.next.take().map(|item| match item {
            ScanItem::Counts(inner) => ScanItem::Counts(Box::new(TenantCounts { inner, tenant })),
            ScanItem::Page(inner) => ScanItem::Page(Box::new(TenantPage { inner, tenant })),
        }))
    }
}

impl Scan for Merged {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ScanItem>, Error>> {
        Box::pin(self.take())
    }
}

struct TenantCounts {
    inner: Box<dyn CountsTask>,
    tenant: TenantId,
}

impl CountsTask for TenantCounts {
    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }

    fn decode(self: Box<Self>) -> Result<Vec<StreamCounts>, Error> {
        let mut all = self.inner.decode()?;
        all.iter_mut().for_each(|counts| counts.labels = with_tenant(&counts.labels, &self.tenant));
        Ok(all)
    }
}

struct TenantPage {
    inner: Box<dyn PageTask>,
    tenant: TenantId,
}

impl PageTask for TenantPage {
    fn bounds(&self) -> (i64, i64) {
        self.inner.bounds()
    }

    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }

    fn narrow(&mut self) -> Result<LogPage, Error> {
        let mut page = self.inner.narrow()?;
        page.runs.iter_mut().for_each(|run| run.labels = with_tenant(&run.labels, &self.tenant));
        Ok(page)
    }

    fn lines(&mut self) -> Result<LineColumn, Error> {
        self.inner.lines()
    }

    fn retain(&mut self, test: &LineAutomaton, negated: bool, alive: &mut [bool]) -> Result<bool, Error> {
        self.inner.retain(test, negated, alive)
    }

    fn lines_of(&mut self, wanted: &[bool]) -> Result<LineColumn, Error> {
        self.inner.lines_of(wanted)
    }

    fn reduced(&mut self, reducer: &dyn LineReducer, wanted: &[bool]) -> Result<Option<LineColumn>, Error> {
        self.inner.reduced(reducer, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_source::{MemoryRow, MemorySource};
    use crate::series_index::{SeriesRequest, all_series, all_texts};
    use crate::source::{Columns, Needles};
    use sandur_memory::MemoryBudget;
    use sandur_model::{AutomatonParts, Labels, Level, MatchOp, TimeRange};
    use sandur_runtime::Env;
    use std::sync::Arc;
    use std::time::Duration;

    fn row(tenant: &str, timestamp: i64, labels: &[(&str, &str)]) -> MemoryRow {
        MemoryRow {
            labels: Arc::new(Labels::from_pairs(labels.iter().copied())),
            timestamp,
            line: format!("{tenant} {timestamp}").into(),
            metadata: Vec::new(),
            level: Level::None,
        }
    }

    /// Tenants `a` and `b` have their own rows, other tenants have none.
    fn source() -> TenantsSource<MemorySource> {
        let tenant = |id| TenantId::new(id).unwrap();
        let a = vec![row("a", 1, &[("app", "x")]), row("a", 3, &[("app", "x")])];
        let own = [("app", "y"), ("__tenant_id__", "own")];
        let b = vec![row("b", 2, &[("app", "x")]), row("b", 4, &own)];
        let rows = MemorySource::new(Vec::new()).of_tenant(tenant("a"), a).of_tenant(tenant("b"), b);
        TenantsSource::new(Arc::new(rows.page_rows(1)))
    }

    /// Accepts lines that contain a `2`.
    fn holds_a_two() -> LineAutomaton {
        let mut classes = [0; 256];
        classes[usize::from(b'2')] = 1;
        let next = vec![vec![], vec![], vec![2, LineAutomaton::PASSES]];
        LineAutomaton::new(AutomatonParts { classes, next, passes_at_end: vec![false; 3], start: 2 }).unwrap()
    }

    fn context() -> QueryContext {
        let tenants = TenantId::several(["b", "a", "c"].map(|id| TenantId::new(id).unwrap())).unwrap();
        let budget = MemoryBudget::root("query", 1 << 20);
        QueryContext::new(Env::simulated(1, 0), tenants, budget, Duration::from_secs(9))
    }

    fn everything(matchers: Vec<Matcher>, order: Order) -> Selection {
        Selection {
            matchers,
            range: TimeRange::ALL,
            order,
            needles: Needles::default(),
            columns: Columns { lines: true, metadata: true },
            counts: false,
            counts_by: Vec::new(),
        }
    }

    async fn lines(matchers: Vec<Matcher>, order: Order) -> Vec<String> {
        let mut scan = source().scan(&context(), everything(matchers, order)).await.unwrap();
        let mut lines = Vec::new();
        while let Some(ScanItem::Page(mut page)) = scan.next().await.unwrap() {
            let narrow = page.narrow().unwrap();
            let line = String::from_utf8(page.lines().unwrap().line(0).to_vec()).unwrap();
            lines.push(format!("{line} {}", narrow.runs[0].labels));
        }
        lines
    }

    #[tokio::test]
    async fn rows_of_several_tenants_are_merged_in_order_with_their_tenant() {
        let all = lines(Vec::new(), Order::NewestFirst).await;
        assert_eq!(
            all,
            [
                r#"b 4 {__tenant_id__="b", app="y", original___tenant_id__="own"}"#,
                r#"a 3 {__tenant_id__="a", app="x"}"#,
                r#"b 2 {__tenant_id__="b", app="x"}"#,
                r#"a 1 {__tenant_id__="a", app="x"}"#,
            ]
        );
        let matcher = |name: &str, value: &str| Matcher::new(name, MatchOp::Regex, value).unwrap();
        let only_a = lines(vec![matcher("__tenant_id__", "a|c")], Order::OldestFirst).await;
        assert_eq!(only_a.len(), 2, "{only_a:?}");
        let own = lines(vec![matcher("original___tenant_id__", "own")], Order::Any).await;
        assert_eq!(own.len(), 1, "{own:?}");
    }

    /// Goal: pages of several tenants can test and leave out lines like the pages that they wrap.
    #[tokio::test]
    async fn pages_of_several_tenants_test_and_build_lines_like_the_inner_pages() {
        let rows = (1..=4).map(|timestamp| row("a", timestamp, &[("app", "x")])).collect();
        let source = TenantsSource::new(Arc::new(MemorySource::new(rows)));
        let mut scan = source.scan(&context(), everything(Vec::new(), Order::Any)).await.unwrap();
        let Some(ScanItem::Page(mut page)) = scan.next().await.unwrap() else { panic!("a page") };
        page.narrow().unwrap();
        let mut alive = [true; 4];
        assert!(page.retain(&holds_a_two(), false, &mut alive).unwrap(), "the inner page can test lines");
        assert_eq!(alive, [false, true, false, false]);
        let lines = page.lines_of(&alive).unwrap();
        assert_eq!([lines.line(0), lines.line(1)], [&b""[..], b"a 2"], "unwanted lines are left out");
    }

    #[tokio::test]
    async fn labels_and_series_of_several_tenants_are_merged() {
        let (source, context) = (source(), context());
        let (names, _) = all_texts(&source, &context, SeriesRequest::everything().names()).await.unwrap();
        assert_eq!(names, ["__tenant_id__", "app"]);
        let values = async |name: &str| {
            all_texts(&source, &context, SeriesRequest::everything().values(name)).await.unwrap().0
        };
        assert_eq!(values("__tenant_id__").await, ["a", "b", "c"]);
        assert_eq!(values("app").await, ["x", "y"]);
        let (streams, _) = all_series(&source, &context, SeriesRequest::everything()).await.unwrap();
        assert_eq!(streams.len(), 3);
        let volumes = source
            .volumes(&context, StreamsRequest { matchers: Vec::new(), range: TimeRange::ALL })
            .await
            .unwrap();
        assert_eq!(volumes.iter().map(|v| v.lines).sum::<u64>(), 4);
        assert!(source.follow(&context, Vec::new()).is_err());
    }
}
