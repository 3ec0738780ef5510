//! The engine as a source of log queries: scans, volumes, and series calls.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use roaring::RoaringBitmap;
use sandur_base::BoxFuture;
use sandur_model::{Labels, MINUTE_NS, Matcher, Signal, StreamId, TenantId, TimeRange};
use sandur_query::{
    Error, Follow, Holding, Indexed, LogSource, QueryContext, QueryStats, Scan, Selection, StreamVolume,
    StreamsRequest, Versions,
};

use super::clusters::{Member, Timed, clusters};
use super::plan::Cluster;
use super::stream::EngineScan;
use crate::blocks::reader::BlockReader;
use crate::head::Head;
use crate::logs::block::OpenLogs;
use crate::logs::head::{StreamBounds, WantedStreams};
use crate::logs::reading::masked_follow::MaskedFollow;
use crate::logs::tail::Followers;
use crate::reading::freshness::Freshness;
use crate::reading::matching;
use crate::reading::series_reader::{IndexedSignal, SeriesInHead, SeriesReader};
use crate::rules::Rulebook;
use crate::view::{View, Views};
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::log_block::{Footer, PageEntry};

/// The source of queries over all logs of the engine.
pub(crate) struct EngineLogs {
    series: SeriesReader<Footer>,
    views: Arc<Views>,
    followers: Arc<Followers>,
    rulebook: Arc<Rulebook>,
}

impl IndexedSignal for Footer {
    const SIGNAL: Signal = Signal::Logs;
    type InHead = Vec<StreamBounds>;

    fn in_head(head: &Head, wanted: WantedStreams<'_>, range: TimeRange) -> Self::InHead {
        head.logs().stream_bounds(wanted, range)
    }
}

impl SeriesInHead for Vec<StreamBounds> {
    fn id(&self, at: usize) -> StreamId {
        self[at].id
    }

    fn labels(&self, at: usize) -> Arc<Labels> {
        Arc::clone(&self[at].labels)
    }

    fn label_names(&self) -> impl Iterator<Item = &str> {
        self.iter().flat_map(|stream| stream.labels.iter().map(|(name, _)| name))
    }

    fn label_values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.iter().filter_map(move |stream| stream.labels.get(name))
    }
}

/// A block or a head.
#[derive(Clone)]
enum Holder {
    Block(Arc<BlockMeta>),
    Head(Arc<Head>),
}

impl EngineLogs {
    pub(crate) fn new(
        (views, freshness): (Arc<Views>, Freshness),
        followers: Arc<Followers>,
        reader: BlockReader,
        rulebook: Arc<Rulebook>,
    ) -> Self {
        let series = SeriesReader::new(Arc::clone(&views), freshness, reader);
        Self { series, views, followers, rulebook }
    }

    fn clusters(view: &View, context: &QueryContext, selection: &Selection) -> Vec<Cluster> {
        let mut holders: Vec<Timed<Holder>> = Vec::new();
        for block in SeriesReader::<Footer>::blocks(view, context, selection.range) {
            holders.push(Timed { first: block.min_ts, last: block.max_ts, source: Holder::Block(block) });
        }
        QueryStats::add(&context.stats().heads_asked, view.heads.len() as u64);
        for head in &view.heads {
            let Some((first, last)) = head.bounds(&SeriesReader::<Footer>::dataset(context)) else {
                continue;
            };
            holders.push(Timed { first, last, source: Holder::Head(Arc::clone(head)) });
        }
        let cluster = |members: Vec<Member<Holder>>| {
            let mut cluster = Cluster { blocks: Vec::new(), heads: Vec::new() };
            for Member { source, times } in members {
                match source {
                    Holder::Block(block) => cluster.blocks.push((block, times)),
                    Holder::Head(head) => cluster.heads.push((head, times)),
                }
            }
            cluster
        };
        clusters(holders, selection.order).into_iter().map(cluster).collect()
    }

    async fn volumes(
        &self,
        context: &QueryContext,
        StreamsRequest { matchers, range }: StreamsRequest,
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
            .series
            .visit_blocks(context, &matchers, range, |block, streams| {
                memory.grow(streams.len() * 128)?;
                for (ordinal, volume) in self.block_volumes(context, block, streams, range) {
                    add(&mut found, block.series_id(ordinal), volume);
                }
                Ok(())
            })
            .await?;
        let part = context.part();
        let of_head = move |_, head: &Head, tenant: &TenantId, matchers: &[Matcher]| {
            head.logs().volumes(WantedStreams { tenant, matchers, part }, range)
        };
        let of_heads = matching::in_heads(context, &view.heads, &matchers, of_head).await?;
        for volume in of_heads.into_iter().flatten() {
            add(&mut found, volume.labels.stream_id(), volume);
        }
        let mut volumes: Vec<StreamVolume> = found.into_values().collect();
        volumes.sort_unstable_by(|a, b| a.labels.cmp(&b.labels));
        Ok(volumes)
    }

    /// Volumes of the streams of a block, by ordinal: from the stream table if the stream lies inside
    /// the range, otherwise from the minute counts. Without the latter if the counts are damaged.
    fn block_volumes(
        &self,
        context: &QueryContext,
        block: &OpenLogs,
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
        let reader = self.series.reader();
        let counts = match reader.known_counts(block).map_or_else(|| reader.decode_counts(block), Ok) {
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

impl Indexed for EngineLogs {
    type Index = SeriesReader<Footer>;

    fn index(&self) -> &SeriesReader<Footer> {
        &self.series
    }
}

impl Versions for EngineLogs {
    fn holdings(&self, context: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        self.series.holdings(context, range)
    }

    fn delete_generation(&self, tenant: &TenantId) -> u64 {
        self.series.delete_generation(tenant)
    }
}

impl LogSource for EngineLogs {
    fn scan<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Box<dyn Scan>, Error>> {
        Box::pin(async move {
            let view = self.series.view(context).await?;
            let dataset = SeriesReader::<Footer>::dataset(context);
            let rules = self.rulebook.hiding(&view.snapshot, &dataset).await?;
            rules.warn(context);
            let clusters = Self::clusters(&view, context, &selection);
            let scan =
                EngineScan::new(self.series.reader().clone(), context.clone(), selection, clusters, rules);
            Ok(Box::new(scan) as Box<dyn Scan>)
        })
    }

    fn volumes<'a>(
        &'a self,
        context: &'a QueryContext,
        request: StreamsRequest,
    ) -> BoxFuture<'a, Result<Vec<StreamVolume>, Error>> {
        Box::pin(self.volumes(context, request))
    }

    fn follow(&self, context: &QueryContext, matchers: Vec<Matcher>) -> Result<Box<dyn Follow>, Error> {
        if !context.part().is_whole() {
            return Err(Error::Internal(
                "a follower cannot be restricted to a part of the streams".to_owned(),
            ));
        }
        let inner = self.followers.follow(context, matchers)?;
        let (views, freshness) = (Arc::clone(&self.views), self.series.freshness().clone());
        freshness.keep_up();
        Ok(Box::new(MaskedFollow::new(inner, context, (views, freshness), Arc::clone(&self.rulebook))))
    }
}
