//! Compares indexes that are read in parts with a test of every series, and with damaged parts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_cache::Cache;
use sandur_catalog::LogPosition;
use sandur_format::block::{BlockOrigin, compare_series};
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::{BlockOptions, BlockWriter, Floats, Footer, WholeSeries};
use sandur_memory::MemoryBudget;
use sandur_model::{Dataset, MatchOp, Matcher, TenantId, TimeRange};
use sandur_query::{Error, JoinedLabels, JoinedTexts, QueryContext, QueryStats};
use sandur_runtime::Env;
use sandur_store::{Intent, Store, StoreOptions};

use super::{IndexError, IndexReader, WantedLabels};
use crate::blocks::block_meta;
use crate::blocks::bytes::BlockBytes;
use crate::blocks::cache::BlockCache;
use crate::blocks::reader::BlockReader;
use crate::samples::OpenSamples;

type Pairs = Vec<(String, String)>;

/// A block in a store, with a reader.
struct Scene {
    env: Env,
    store: Store,
    reader: BlockReader,
    meta: Arc<BlockMeta>,
    object: Bytes,
}

fn pairs(labels: &Pairs) -> impl Iterator<Item = (&str, &str)> + Clone {
    labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// A block of these series. Each has a sample at the second of its ordinal, except every seventh.
fn block_of(series: &[Pairs]) -> (Bytes, sandur_format::block::BlockSummary) {
    let mut options = BlockOptions::new(TenantId::default_tenant(), TimeRange::ALL, 1);
    options.origin = BlockOrigin { seen: LogPosition::default(), ..BlockOrigin::default() };
    let mut writer = BlockWriter::new(options);
    for labels in series {
        let ordinal = writer.push_series(pairs(labels)).unwrap();
        if !ordinal.is_multiple_of(7) {
            let times = [i64::from(ordinal) * 1_000];
            writer
                .push_floats(ordinal, Floats { times: &times, values: &[1.0], ..Floats::default() })
                .unwrap();
        }
    }
    let mut out = Vec::new();
    let summary = writer.finish(&mut out).unwrap();
    (Bytes::from(out.concat()), summary)
}

impl Scene {
    async fn new(mut series: Vec<Pairs>) -> Self {
        series.sort_by(|a, b| compare_series(pairs(a), pairs(b)));
        series.dedup();
        let (object, summary) = block_of(&series);
        let env = Env::simulated(3, 0);
        let store = Store::open("memory://", env.clone(), StoreOptions::default()).await.unwrap();
        let dataset = Dataset::metrics(TenantId::default_tenant());
        let mut meta = block_meta::unwritten(env.new_id(), env.new_id(), &dataset, TimeRange::ALL, 1);
        block_meta::fill(&mut meta, &summary);
        store.put(&meta.path(), object.clone(), Intent::block()).await.unwrap();
        let cache = Cache::in_memory(&env, 64 << 20);
        let bytes = BlockBytes::new(env.clone(), store.clone(), cache.clone());
        let reader = BlockReader::new(env.clone(), bytes, Arc::new(BlockCache::new(cache)));
        Self { env, store, reader, meta: Arc::new(meta), object }
    }

    fn context(&self, limit: u64) -> QueryContext {
        let budget = MemoryBudget::root("query", limit);
        QueryContext::new(self.env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(3_600))
    }

    async fn open(&self) -> Arc<OpenSamples> {
        self.reader.open::<Footer>(&self.meta, &QueryStats::default()).await.unwrap()
    }

    async fn index(&self, context: &QueryContext) -> IndexReader {
        IndexReader::new(&self.reader, context, &self.open().await)
    }

    async fn whole(&self) -> WholeSeries {
        WholeSeries::of_object(&self.object, &self.open().await.footer).unwrap()
    }
}

/// Pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Series of a site: some metrics of many pods, with labels that some series lack, and values in no order.
fn site(metrics: u64, pods: u64, seed: u64) -> Vec<Pairs> {
    let mut random = Random(seed);
    let mut all = Vec::new();
    for metric in 0..metrics {
        for pod in 0..pods {
            let label = |name: &str, value: String| (name.to_owned(), value);
            let mut labels = vec![
                label("__name__", format!("metric_{metric}")),
                label("app", format!("app-{}", pod % 13)),
            ];
            if random.below(3) == 0 {
                labels.push(label("mode", ["idle", "user", "system"][random.below(3) as usize].to_owned()));
            }
            labels.push(label("node", format!("n{}", (pod * 7) % 91)));
            labels.push(label("pod", format!("pod-{:x}-{pod}", (pod * 2_654_435_761) % 65_537)));
            if metric == 1 {
                labels.push(label("rare", "yes".to_owned()));
            }
            all.push(labels);
        }
    }
    all
}

fn some_matcher(random: &mut Random) -> Matcher {
    let ops = [MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex];
    let (name, values): (&str, &[&str]) = match random.below(7) {
        0 => ("__name__", &["metric_0", "metric_1|metric_3", "metric_.*", "metric_[12]", "", ".+"]),
        1 => ("app", &["app-1", "app-1.*", "app-2|app-12|nothing", ".*-3", "", "x"]),
        2 => ("mode", &["idle", "", "idle|user", ".+", ".*", "s.*m", "|idle"]),
        3 => ("node", &["n1", "n1.*", "n[0-9]", "n90|n7", ""]),
        4 => ("pod", &["pod-0-0", "pod-.*-77", "pod-a.*", ".*1.*", "", "pod-.+", "pod-.*", "pod-1.*", "p.*"]),
        5 => ("rare", &["yes", "", "no", ".*"]),
        _ => ("absent", &["", "x", ".*", ".+"]),
    };
    let value = values[random.below(values.len() as u64) as usize];
    Matcher::new(name, ops[random.below(4) as usize], value).unwrap()
}

async fn agree(series: Vec<Pairs>, tries: usize) -> usize {
    let scene = Scene::new(series).await;
    let (context, whole) = (scene.context(64 << 20), scene.whole().await);
    let index = scene.index(&context).await;
    let (mut random, mut found) = (Random(5), 0);
    for _ in 0..tries {
        let matchers: Vec<Matcher> = (0..1 + random.below(4)).map(|_| some_matcher(&mut random)).collect();
        let selected = index.select(&matchers).await.unwrap();
        assert_eq!(selected, whole.select(&matchers), "{matchers:?}");
        let from = random.below(whole.len() as u64 + 1) as i64;
        let range = TimeRange::new(from * 1_000_000_000, (from + 3_000) * 1_000_000_000);
        let touching = index.touching(selected.clone(), range).await.unwrap();
        let expected = selected.iter().filter(|ordinal| whole.span(*ordinal).touches(range));
        assert_eq!(touching, expected.collect::<RoaringBitmap>());
        let names = index.names(&touching).await.unwrap();
        let sets: Vec<_> = touching.iter().map(|ordinal| whole.labels(ordinal)).collect();
        let mut expected: Vec<&str> = sets.iter().flat_map(|set| set.iter().map(|(name, _)| name)).collect();
        expected.sort_unstable();
        expected.dedup();
        assert!(names.iter().map(|name| &**name).eq(expected.iter().copied()), "{names:?}");
        for name in ["pod", "mode", "absent"] {
            let mut expected: Vec<&str> = sets.iter().filter_map(|set| set.get(name)).collect();
            expected.sort_unstable();
            expected.dedup();
            let mut values = Vec::new();
            if let Some(mut stream) = index.values(name, &touching).await.unwrap() {
                while let Some(page) = stream.next().await.unwrap() {
                    values.extend(page.iter().map(str::to_owned));
                }
            }
            assert_eq!(values, expected, "{name} of {matchers:?}");
        }
        found += selected.len() as usize;
    }
    assert_eq!(context.budget().used(), 0, "all reserved memory is released");
    found
}

#[tokio::test]
async fn selections_over_many_pages_equal_a_test_of_every_series() {
    let found = agree(site(5, 4_000, 1), 220).await;
    assert!(found > 100_000, "{found}");
}

#[tokio::test]
async fn selections_over_few_series_equal_a_test_of_every_series() {
    assert!(agree(site(4, 30, 2), 200).await > 1_000);
    agree(Vec::new(), 10).await;
}

/// The lists of 10 matchers that each select nearly all series are not held at the same time.
#[tokio::test]
async fn ten_matchers_that_select_most_series_take_little_memory() {
    let scene = Scene::new(site(8, 5_000, 3)).await;
    let texts = ["app", "node", "pod"];
    let mut matchers: Vec<Matcher> =
        texts.iter().map(|name| Matcher::new(*name, MatchOp::Regex, ".+").unwrap()).collect();
    matchers.extend(texts.iter().map(|name| Matcher::new(*name, MatchOp::NotEqual, "x").unwrap()));
    matchers.extend(texts.iter().map(|name| Matcher::new(*name, MatchOp::NotRegex, "y.*z").unwrap()));
    matchers.push(Matcher::new("__name__", MatchOp::Regex, "metric_.*").unwrap());
    let context = scene.context(2 << 20);
    let selected = scene.index(&context).await.select(&matchers).await.unwrap();
    assert_eq!(selected.len(), 40_000);
    assert!(context.budget().peak() < 2 << 20);
}

#[tokio::test]
async fn a_query_with_too_little_memory_is_refused_by_its_budget() {
    let scene = Scene::new(site(5, 4_000, 1)).await;
    let context = scene.context(8 << 10);
    let index = scene.index(&context).await;
    let refused = index.select(&[Matcher::new("pod", MatchOp::Regex, ".*7.*").unwrap()]).await.unwrap_err();
    let IndexError::Query(Error::OverBudget(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!(&*refusal.budget, "query");
    let refused = index.page(0, &WantedLabels::All, false).await.err().unwrap();
    assert!(matches!(refused, IndexError::Query(Error::OverBudget(_))), "{refused:?}");
}

#[tokio::test]
async fn label_calls_decode_parts_of_small_blocks_once() {
    let scene = Scene::new(site(5, 4_000, 1)).await;
    let context = scene.context(64 << 20);
    let index = scene.index(&context).await;
    let matchers = [Matcher::new("node", MatchOp::Equal, "n7").unwrap()];
    let range = TimeRange::new(0, 19_000_000_000_000);
    let mut misses = Vec::new();
    for _ in 0..2 {
        let found = index.touching(index.select(&matchers).await.unwrap(), range).await.unwrap();
        let mut values = index.values("pod", &found).await.unwrap().unwrap();
        while values.next().await.unwrap().is_some() {}
        misses.push(scene.reader.cache().hits_and_misses().1);
    }
    assert!(misses[0] > 10 && misses[0] == misses[1], "{misses:?}");
}

/// The parts of a large block are not all cached, but those of a query for a small part of its series are.
#[tokio::test]
async fn few_columns_and_spans_of_large_blocks_are_decoded_once() {
    let series = (0..140_000_u32).map(|n| {
        let value = |name: &str, value: String| (name.to_owned(), value);
        vec![
            value("__name__", format!("metric_{}", n / 20_000)),
            value("pod", format!("pod-{n:06}-{}", n % 7)),
        ]
    });
    let scene = Scene::new(series.collect()).await;
    let context = scene.context(64 << 20);
    let index = scene.index(&context).await;
    let (mut misses, mut hits) = (Vec::new(), Vec::new());
    for name in ["metric_3", "metric_3", "metric_.*", "metric_.*"] {
        let matchers = [
            Matcher::new("__name__", MatchOp::Regex, name).unwrap(),
            Matcher::new("pod", MatchOp::Regex, ".*-3").unwrap(),
        ];
        let found = index.select(&matchers).await.unwrap();
        index.touching(found, TimeRange::new(70_000_000_000_000, 71_000_000_000_000)).await.unwrap();
        let (hit, missed) = scene.reader.cache().hits_and_misses();
        hits.push(hit);
        misses.push(missed);
    }
    // Six pages of columns.
    assert!(misses[0] >= 6 && misses[0] == misses[1] && hits[1] - hits[0] >= 6, "{misses:?} {hits:?}");
}

/// Whatever part of the index is damaged, the answer is right or the error names the block.
#[tokio::test]
async fn a_damaged_part_of_an_index_is_an_error_that_names_the_block() {
    let scene = Scene::new(site(3, 16_000, 4)).await;
    let footer = Arc::clone(&scene.open().await.footer);
    let matchers = [
        Matcher::new("pod", MatchOp::Regex, ".*7.*").unwrap(),
        Matcher::new("mode", MatchOp::NotEqual, "idle").unwrap(),
    ];
    let expected = scene.whole().await.select(&matchers);
    let mut noticed = 0;
    for (number, part) in footer.index().parts().enumerate().step_by(7) {
        let sandur_format::sample_block::index::Place::Object(piece) = footer.index().locate(&part).unwrap()
        else {
            panic!("the index is not in the footer")
        };
        let mut damaged = scene.object.to_vec();
        damaged[piece.offset as usize + number % piece.len as usize] ^= 0x40;
        scene.store.put(&scene.meta.path(), damaged.into(), Intent::block()).await.unwrap();
        let fresh = Cache::in_memory(&scene.env, 64 << 20);
        let bytes = BlockBytes::new(scene.env.clone(), scene.store.clone(), fresh.clone());
        let reader = BlockReader::new(scene.env.clone(), bytes, Arc::new(BlockCache::new(fresh)));
        let context = scene.context(64 << 20);
        let block = reader.open::<Footer>(&scene.meta, context.stats()).await.unwrap();
        let index = IndexReader::new(&reader, &context, &block);
        let everything = async {
            let selected = index.select(&matchers).await?;
            assert_eq!(selected, expected);
            index.touching(selected.clone(), TimeRange::new(0, 5_000_000_000)).await?;
            for page in index.pages_of(&selected) {
                index.page(page, &WantedLabels::All, false).await?;
            }
            Ok::<_, IndexError>(())
        };
        match everything.await {
            Ok(()) => {}
            Err(IndexError::Block(error)) => {
                assert!(error.to_string().contains(&scene.meta.path()), "{error}");
                noticed += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(noticed > 10, "{noticed}");
}

/// Combinations of values equal those of the series one by one, for any labels and series: also for
/// labels with one value on a page, labels that some series lack, and labels that no series has.
#[tokio::test(start_paused = true)]
async fn combinations_of_values_equal_those_of_each_series() {
    let scene = Scene::new(site(5, 2_000, 11)).await;
    let whole = scene.whole().await;
    let context = scene.context(64 << 20);
    let index = scene.index(&context).await;
    let mut random = Random(5);
    let (mut most, mut none) = (0, 0);
    for labels in
        [&["__name__", "app"][..], &["app", "mode", "node"], &["node"], &["pod", "rare"], &["app", "absent"]]
    {
        let wanted = JoinedLabels {
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            separator: '/',
            limit: 100_000,
        };
        for part in [1, 7, 1_000] {
            let series: RoaringBitmap = (0..10_000).filter(|_| random.below(part) == 0).collect();
            let of = |ordinal| {
                let own = whole.labels(ordinal);
                let values: Option<Vec<String>> =
                    labels.iter().map(|label| own.get(label).map(str::to_owned)).collect();
                Some(values?.join("/"))
            };
            let expected: BTreeSet<String> = series.iter().filter_map(of).collect();
            let mut texts = JoinedTexts::new(&context, wanted.limit).unwrap();
            index.joined_values(&wanted, &series, &mut texts).await.unwrap();
            let found = texts.finish().unwrap();
            assert!(found.iter().eq(expected.iter().map(String::as_str)), "{labels:?} of one in {part}");
            (most, none) = (most.max(found.len()), none + usize::from(found.is_empty()));
        }
    }
    assert!(most > 1_000 && none >= 3, "{most} {none}");
    let few = JoinedLabels { labels: vec!["pod".to_owned(), "node".to_owned()], separator: '/', limit: 50 };
    let all: RoaringBitmap = (0..10_000).collect();
    let mut texts = JoinedTexts::new(&context, few.limit).unwrap();
    let refused = index.joined_values(&few, &all, &mut texts).await.unwrap_err();
    assert!(matches!(refused, IndexError::Query(Error::Limit(_))), "{refused:?}");
    drop(texts);
    assert_eq!(context.budget().used(), 0, "memory is released");
}
