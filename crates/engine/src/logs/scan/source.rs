//! The engine as a source of queries: scans, and the label calls that footers alone answer.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use roaring::RoaringBitmap;
use sandur_base::BoxFuture;
use sandur_model::{Dataset, Labels, MINUTE_NS, Matcher, StreamId, TenantId, TimeRange};
use sandur_query::{
    Error, Follow, Holding, LogSource, QueryContext, QueryStats, Scan, Selection, SeriesIndex, StreamVolume,
    Versions,
};

use super::clusters::{Timed, clusters};
use super::matching;
use super::plan::Cluster;
use super::stream::EngineScan;
use crate::block_reader::{BlockReader, ReadError};
use crate::head::Head;
use crate::logs::block::OpenBlock;
use crate::logs::mask::MaskedFollow;
use crate::logs::tail::Followers;
use crate::rules::Rulebook;
use crate::view::{View, Views};
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::log_block::PageEntry;

/// Footers that are open at a time when a call walks over all blocks of a range.
const OPEN_AT_ONCE: usize = 16;

/// Queries over everything that the engine holds.
pub(crate) struct EngineSource {
    views: Arc<Views>,
    followers: Arc<Followers>,
    reader: BlockReader,
    rulebook: Arc<Rulebook>,
}

/// A block or a head.
enum Holder {
    Block(Arc<BlockMeta>),
    Head(Arc<Head>),
}

/// What the query asks.
fn logs(context: &QueryContext) -> Dataset {
    Dataset::logs(context.tenant().clone())
}

impl EngineSource {
    pub(crate) fn new(
        views: Arc<Views>,
        followers: Arc<Followers>,
        reader: BlockReader,
        rulebook: Arc<Rulebook>,
    ) -> Self {
        Self { views, followers, reader, rulebook }
    }

    fn view(&self, context: &QueryContext) -> Arc<View> {
        let view = self.views.current();
        view.missing.iter().for_each(|missing| context.warn(&**missing));
        view
    }

    fn blocks(view: &View, context: &QueryContext, range: TimeRange) -> Vec<Arc<BlockMeta>> {
        let blocks: Vec<_> = view.snapshot.blocks(&logs(context), range).cloned().collect();
        QueryStats::add(&context.stats().blocks_total, blocks.len() as u64);
        blocks
    }

    fn clusters(view: &View, context: &QueryContext, selection: &Selection) -> Vec<Cluster> {
        let mut holders: Vec<Timed<Holder>> = Vec::new();
        for block in Self::blocks(view, context, selection.range) {
            holders.push(Timed { first: block.min_ts, last: block.max_ts, source: Holder::Block(block) });
        }
        QueryStats::add(&context.stats().heads_asked, view.heads.len() as u64);
        for head in &view.heads {
            let Some((first, last)) = head.bounds(&logs(context)) else { continue };
            holders.push(Timed { first, last, source: Holder::Head(Arc::clone(head)) });
        }
        let cluster = |timed: Vec<Timed<Holder>>| {
            let mut cluster = Cluster { blocks: Vec::new(), heads: Vec::new() };
            for holder in timed {
                let times = TimeRange::inclusive(holder.first, holder.last);
                match holder.source {
                    Holder::Block(block) => cluster.blocks.push(block),
                    Holder::Head(head) => cluster.heads.push((head, times)),
                }
            }
            cluster
        };
        clusters(holders, selection.order).into_iter().map(cluster).collect()
    }

    /// Calls `visit` with every block of the range and its matching streams with rows in the range.
    async fn visit_blocks(
        &self,
        context: &QueryContext,
        matchers: &[Matcher],
        range: TimeRange,
        mut visit: impl FnMut(&OpenBlock, &RoaringBitmap) -> Result<(), Error>,
    ) -> Result<Arc<View>, Error> {
        let began = context.env().monotonic();
        let view = self.view(context);
        QueryStats::add(&context.stats().heads_asked, view.heads.len() as u64);
        let blocks = Self::blocks(&view, context, range);
        for some in blocks.chunks(OPEN_AT_ONCE) {
            context.check()?;
            QueryStats::add(&context.stats().blocks_opened, some.len() as u64);
            for block in self.reader.open_all(some, context.stats()).await {
                let block = match block {
                    Ok(block) => block,
                    Err(error @ ReadError::Store { .. }) => {
                        return Err(Error::Unavailable(error.to_string()));
                    }
                    Err(damage) => {
                        context.warn(damage.to_string());
                        continue;
                    }
                };
                let selected = match matching::in_block(context, &block, matchers).await? {
                    Ok(selected) => selected,
                    Err(reason) => {
                        context.warn(ReadError::damaged(&block.meta, reason).to_string());
                        continue;
                    }
                };
                let streams = block.footer.streams().touching(selected, range);
                QueryStats::add(&context.stats().streams, streams.len());
                visit(&block, &streams)?;
            }
        }
        let took = context.env().monotonic().saturating_sub(began);
        QueryStats::add_time(&context.stats().index_ns, took);
        Ok(view)
    }

    async fn streams(
        &self,
        context: &QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> Result<Vec<Arc<Labels>>, Error> {
        let lists = if any_of.is_empty() { vec![Vec::new()] } else { any_of };
        let mut memory = context.budget().reserve(0)?;
        // By identity: most blocks hold the same streams, and comparing labels costs more than all the rest.
        let mut found: HashMap<StreamId, Arc<Labels>> = HashMap::new();
        for matchers in &lists {
            let view = self
                .visit_blocks(context, matchers, range, |block, streams| {
                    for ordinal in streams {
                        if let Entry::Vacant(unknown) = found.entry(block.stream_id(ordinal)) {
                            let labels = block.footer.streams().labels(ordinal);
                            memory.grow(labels.text_bytes() as u64 + 64)?;
                            unknown.insert(labels);
                        }
                    }
                    Ok(())
                })
                .await?;
            let bounds = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
                head.logs().stream_bounds(tenant, matchers, range)
            };
            let streams = matching::in_heads(context, &view.heads, matchers, bounds).await?;
            found.extend(streams.into_iter().flatten().map(|stream| (stream.id, stream.labels)));
        }
        let mut streams: Vec<Arc<Labels>> = found.into_values().collect();
        streams.sort_unstable();
        Ok(streams)
    }

    async fn label_names(
        &self,
        context: &QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        let view = self
            .visit_blocks(context, &matchers, range, |block, streams| {
                let table = block.footer.streams();
                let missing = table.label_names_of(streams).filter(|name| !names.contains(*name));
                let missing: Vec<String> = missing.map(str::to_owned).collect();
                names.extend(missing);
                Ok(())
            })
            .await?;
        for labels in head_streams(context, &view, &matchers, range).await? {
            names.extend(labels.iter().map(|(name, _)| name.to_owned()));
        }
        Ok(names.into_iter().collect())
    }

    async fn label_values(
        &self,
        context: &QueryContext,
        name: String,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<String>, Error> {
        let mut values: BTreeSet<String> = BTreeSet::new();
        let mut memory = context.budget().reserve(0)?;
        let view = self
            .visit_blocks(context, &matchers, range, |block, streams| {
                for value in block.footer.streams().label_values_of(&name, streams) {
                    if !values.contains(value) {
                        memory.grow(value.len() as u64 + 48)?;
                        values.insert(value.to_owned());
                    }
                }
                Ok(())
            })
            .await?;
        for labels in head_streams(context, &view, &matchers, range).await? {
            values.extend(labels.get(&name).map(str::to_owned));
        }
        Ok(values.into_iter().collect())
    }

    async fn volumes(
        &self,
        context: &QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<StreamVolume>, Error> {
        let mut found: HashMap<StreamId, StreamVolume> = HashMap::new();
        let mut memory = context.budget().reserve(0)?;
        let add = |found: &mut HashMap<StreamId, StreamVolume>, id: StreamId, more: StreamVolume| match found
            .entry(id)
        {
            Entry::Vacant(unknown) => _ = unknown.insert(more),
            Entry::Occupied(mut known) => {
                let sum = known.get_mut();
                sum.lines += more.lines;
                sum.bytes += more.bytes;
                sum.pages += more.pages;
            }
        };
        let view = self
            .visit_blocks(context, &matchers, range, |block, streams| {
                memory.grow(streams.len() * 128)?;
                for (ordinal, volume) in self.block_volumes(context, block, streams, range) {
                    add(&mut found, block.stream_id(ordinal), volume);
                }
                Ok(())
            })
            .await?;
        let of_head = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
            head.logs().volumes(tenant, matchers, range)
        };
        let of_heads = matching::in_heads(context, &view.heads, &matchers, of_head).await?;
        for volume in of_heads.into_iter().flatten() {
            add(&mut found, volume.labels.stream_id(), volume);
        }
        let mut volumes: Vec<StreamVolume> = found.into_values().collect();
        volumes.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
        Ok(volumes)
    }

    /// Volumes of the streams of a block by ordinal: from its stream table when it lies inside the range,
    /// else from its minute counts. Without these, should they be damaged.
    fn block_volumes(
        &self,
        context: &QueryContext,
        block: &OpenBlock,
        streams: &RoaringBitmap,
        range: TimeRange,
    ) -> Vec<(u32, StreamVolume)> {
        let table = block.footer.streams();
        let pages_of = |n: u32| {
            let near = |p: &&PageEntry| p.first_stream <= n && n <= p.last_stream;
            block.footer.pages().iter().filter(near).count() as u64
        };
        let (inside, across): (RoaringBitmap, RoaringBitmap) = streams.iter().partition(|&n| {
            let stats = table.stats(n);
            range.covers(stats.min_ts, stats.max_ts)
        });
        let volume = |n: u32, lines, bytes| {
            (n, StreamVolume { labels: table.labels(n), lines, bytes, pages: pages_of(n) })
        };
        let mut volumes: Vec<(u32, StreamVolume)> =
            inside.iter().map(|n| volume(n, table.stats(n).rows, table.stats(n).bytes)).collect();
        if across.is_empty() {
            return volumes;
        }
        let counts =
            match self.reader.known_counts(block).map_or_else(|| self.reader.decode_counts(block), Ok) {
                Ok(counts) => counts,
                Err(damage) => {
                    context.warn(damage.to_string());
                    return volumes;
                }
            };
        let first = range.start.saturating_sub(1).div_euclid(MINUTE_NS) + 1;
        let last = range.end.saturating_sub(1).saturating_add(MINUTE_NS - 1).div_euclid(MINUTE_NS);
        for run in counts.runs.iter().filter(|run| across.contains(run.stream)) {
            let minutes = counts.minutes[run.counts.clone()].iter();
            let inside = minutes.filter(|m| (first..=last).contains(&i64::from(m.minute)));
            let (lines, bytes) = inside.fold((0, 0), |(l, b), m| (l + u64::from(m.lines), b + m.bytes));
            if lines > 0 {
                volumes.push(volume(run.stream, lines, bytes));
            }
        }
        volumes
    }
}

/// Labels of the matching streams of all heads.
async fn head_streams(
    context: &QueryContext,
    view: &View,
    matchers: &[Matcher],
    range: TimeRange,
) -> Result<Vec<Arc<Labels>>, Error> {
    let of_head = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
        head.logs().streams(tenant, matchers, range)
    };
    Ok(matching::in_heads(context, &view.heads, matchers, of_head).await?.into_iter().flatten().collect())
}

impl SeriesIndex for EngineSource {
    fn streams<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<Arc<Labels>>, Error>> {
        Box::pin(self.streams(context, any_of, range))
    }

    fn label_names<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(self.label_names(context, matchers, range))
    }

    fn label_values<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(self.label_values(context, name, matchers, range))
    }
}

impl Versions for EngineSource {
    fn holdings(&self, context: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        let view = self.views.current();
        if !view.missing.is_empty() {
            return None;
        }
        let block = |block: &Arc<BlockMeta>| Holding {
            first: block.min_ts,
            last: block.max_ts,
            version: block.id.0,
            bytes: block.raw_bytes.max(1),
        };
        let mut holdings: Vec<Holding> = view.snapshot.blocks(&logs(context), range).map(block).collect();
        for head in &view.heads {
            holdings.extend(head.holdings(&logs(context), range));
        }
        // What deletes hide belongs to the version of everything: an odd factor keeps generations apart.
        let deletes = u128::from(view.snapshot.delete_generation(&logs(context)));
        let mixed = deletes.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        holdings.iter_mut().for_each(|holding| holding.version ^= mixed);
        Some(holdings)
    }

    fn delete_generation(&self, tenant: &TenantId) -> u64 {
        self.views.current().snapshot.delete_generation(&Dataset::logs(tenant.clone()))
    }
}

impl LogSource for EngineSource {
    fn scan<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Box<dyn Scan>, Error>> {
        Box::pin(async move {
            let view = self.view(context);
            let rules = self.rulebook.hiding(&view.snapshot, &logs(context));
            rules.warn(context);
            let clusters = Self::clusters(&view, context, &selection);
            let scan = EngineScan::new(self.reader.clone(), context.clone(), selection, clusters, rules);
            Ok(Box::new(scan) as Box<dyn Scan>)
        })
    }

    fn volumes<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<StreamVolume>, Error>> {
        Box::pin(self.volumes(context, matchers, range))
    }

    fn follow(&self, context: &QueryContext, matchers: Vec<Matcher>) -> Result<Box<dyn Follow>, Error> {
        let inner = self.followers.follow(context, matchers)?;
        let (views, rulebook) = (Arc::clone(&self.views), Arc::clone(&self.rulebook));
        Ok(Box::new(MaskedFollow::new(inner, logs(context), views, rulebook)))
    }
}
