//! The cost of queries in requests to the store: pieces of blocks are found in memory and on flash, also
//! by the next process, and a lost or damaged cache directory changes no answer.

use sandur_cache::device::FilePart;
use sandur_cache::flash::{FlashOptions, Journaling, Warm};
use sandur_cache::{Cache, CacheOptions};
use sandur_model::{Labels, MatchOp, Matcher, SampleBatch};
use sandur_query::{SampleSelection, StatsSnapshot};
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};
use tempfile::TempDir;

use super::*;

fn bucket(env: &Env, latency: Duration) -> FaultStore {
    FaultStore::new(env.clone(), 1, FaultPlan { latency_median: latency, ..FaultPlan::none() })
}

/// An engine over the bucket, with this cache.
async fn open(env: &Env, bucket: &FaultStore, name: &str, cache: Cache) -> Arc<Engine> {
    let client = Arc::new(bucket.client(name));
    let store = Store::from_object_store(client, env.clone(), StoreOptions::default());
    let options = EngineOptions { cache: Some(cache), ..small_options() };
    Engine::open(store, env.clone(), options).await.unwrap()
}

/// Pushes rows in one push.
async fn push_many(engine: &Engine, count: i64) -> Vec<Row> {
    let row = |n: i64| ("a".to_owned(), START_NS + n * 1_000_000, format!("line {n} {}", n * 7919 % 10_007));
    let rows: Vec<Row> = (0..count).map(row).collect();
    let batch = rows.iter().fold(BatchBuilder::new().stream("a"), |b, (_, at, line)| b.row(*at, line));
    engine.push(batch.build()).await.unwrap();
    rows
}

/// All rows, with the cost of reading them.
async fn ask(engine: &Arc<Engine>) -> (Vec<Row>, StatsSnapshot, Duration) {
    let context = context(engine.env());
    let started = engine.env().monotonic();
    let rows = read_all_with(engine, &context).await;
    (rows, context.stats().snapshot(), engine.env().monotonic() - started)
}

/// Pushes a metric with a series for each pod, whose samples take more than a group that is always read
/// completely.
async fn push_pods(engine: &Engine) {
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    for pod in 0..1_200 {
        let labels = Labels::from_pairs([("__name__", "up".to_owned()), ("pod", format!("{pod:04}"))]);
        let start = START_NS / 1_000_000;
        let value = |n: i64| (n * pod * 7_919 % 10_007) as f64 * 0.37;
        batch.push(Arc::new(labels), (0..20).map(|n| (start + n * 1_000, value(n))));
    }
    engine.push(batch).await.unwrap();
    engine.flush().await.unwrap();
}

/// The number of series of samples, with the cost of reading them.
async fn series(engine: &Arc<Engine>, name: &str, value: &str) -> (usize, StatsSnapshot) {
    let context = context(engine.env());
    let matcher = Matcher::new(name, MatchOp::Equal, value).unwrap();
    let selection = SampleSelection::all(vec![matcher], START_NS / 1_000_000, START_NS / 1_000_000 + 60_000);
    let mut scan = engine.sources().samples.select(&context, selection).await.unwrap();
    let mut series = 0;
    while let Some(batch) = scan.next().await.unwrap() {
        series += batch.samples.len();
    }
    assert!(scan.is_over());
    (series, context.stats().snapshot())
}

#[tokio::test(start_paused = true)]
async fn one_series_of_a_new_block_is_read_from_its_cached_group() {
    let env = Env::simulated(1, START_NS);
    let bucket = bucket(&env, Duration::from_millis(30));
    let engine = open(&env, &bucket, "writer", Cache::in_memory(&env, 64 << 20)).await;
    push_pods(&engine).await;
    for pod in ["0007", "1100"] {
        let (found, cost) = series(&engine, "pod", pod).await;
        assert_eq!((found, cost.store_requests), (1, 0), "{cost:?}");
    }
    engine.shutdown().await.unwrap();
    // Another process reads the header of the group and the page.
    let engine = open(&env, &bucket, "reader", Cache::in_memory(&env, 64 << 20)).await;
    let (found, cost) = series(&engine, "pod", "0007").await;
    assert!(found == 1 && cost.store_requests > 0, "{cost:?}");
    engine.shutdown().await.unwrap();
}

/// Every request takes the same time, so the time of a query shows the number of consecutive requests.
#[tokio::test(start_paused = true)]
async fn samples_of_many_series_take_at_most_four_consecutive_requests() {
    let (env, latency) = (Env::simulated(1, START_NS), Duration::from_millis(30));
    let plan = FaultPlan { latency_median: latency, ..FaultPlan::none() };
    let bucket = FaultStore::new(env.clone(), 1, plan);
    let writer = open(&env, &bucket, "writer", Cache::in_memory(&env, 64 << 20)).await;
    push_pods(&writer).await;
    writer.shutdown().await.unwrap();
    for (name, value, expected) in [("__name__", "up", 1_200), ("pod", "0007", 1)] {
        let reader = open(&env, &bucket, "reader", Cache::in_memory(&env, 64 << 20)).await;
        let started = env.monotonic();
        let (found, _) = series(&reader, name, value).await;
        let turns = (env.monotonic() - started).as_secs_f64() / latency.as_secs_f64();
        assert_eq!(found, expected);
        assert!(turns < 4.5, "{turns} consecutive requests");
        reader.shutdown().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_query_makes_no_request() {
    let env = Env::simulated(1, START_NS);
    let bucket = bucket(&env, Duration::from_millis(30));
    let writer = open(&env, &bucket, "writer", Cache::in_memory(&env, 64 << 20)).await;
    let rows = push_many(&writer, 2000).await;
    writer.flush().await.unwrap();
    let (found, own, _) = ask(&writer).await;
    assert_eq!(found, rows);
    assert_eq!(own.store_requests, 0, "new blocks are in the cache as they are written");
    assert!(own.page_cache_hits > 0 && own.page_cache_hits == own.pages_read);
    writer.shutdown().await.unwrap();

    let reader = open(&env, &bucket, "reader", Cache::in_memory(&env, 64 << 20)).await;
    let (found, cold, cold_time) = ask(&reader).await;
    assert_eq!(found, rows);
    assert!(cold.store_requests > 0 && cold.store_bytes > 0 && cold.page_cache_hits == 0, "{cold:?}");
    let (found, warm, warm_time) = ask(&reader).await;
    assert_eq!(found, rows);
    assert_eq!((warm.store_requests, warm.store_bytes, warm.index_cache_misses), (0, 0, 0));
    assert!(cold_time >= 10 * warm_time, "{cold_time:?} and {warm_time:?}");
}

/// Goal: overlapping queries do not request the same piece twice.
#[tokio::test(start_paused = true)]
async fn concurrent_queries_share_their_reads() {
    let env = Env::simulated(2, START_NS);
    let bucket = bucket(&env, Duration::from_millis(30));
    let writer = open(&env, &bucket, "writer", Cache::in_memory(&env, 64 << 20)).await;
    let rows = push_many(&writer, 2000).await;
    writer.shutdown().await.unwrap();
    let reader = open(&env, &bucket, "reader", Cache::in_memory(&env, 64 << 20)).await;
    let asked = futures_util::future::join_all((0..8).map(|_| ask(&reader))).await;
    assert!(asked.iter().all(|(found, _, _)| *found == rows));
    let bytes: u64 = asked.iter().map(|(_, stats, _)| stats.store_bytes).sum();
    let stored: u64 = reader.view().snapshot.all_blocks().map(|block| block.size).sum();
    assert!(bytes <= stored, "{bytes} bytes read of {stored}");
}

fn flash_cache(env: &Env, directory: &TempDir) -> Cache {
    let part = FilePart { path: directory.path().join("flash"), bytes: 64 << 20 };
    let flash = FlashOptions {
        parts: vec![part],
        warm: Warm::Crash,
        journaling: Journaling::Off,
        segment_bytes: Some(1 << 20),
        read_deadline: Duration::from_secs(60),
        write_delay: Duration::from_millis(1),
        ..FlashOptions::default()
    };
    let options = CacheOptions { memory: 32 << 20, flash: Some(flash), ..CacheOptions::default() };
    Cache::open(env, options).unwrap()
}

/// Waits until the device has everything that was written to it.
async fn settled(cache: &Cache) {
    loop {
        let device = cache.stats().flash.unwrap().device;
        if device.counts.bytes_admitted > 0 && device.unwritten_bytes == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Waits until the data of an earlier run is recovered.
async fn recovered(cache: &Cache) {
    while cache.is_recovering() {
        tokio::task::yield_now().await;
    }
}

/// Goal: after a restart, clean or not, the cache is warm. Real time, because the device has threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_process_has_a_warm_flash_cache() {
    for is_clean in [true, false] {
        let (env, directory) = (Env::system(1), TempDir::new().unwrap());
        let bucket = bucket(&env, Duration::ZERO);
        let cache = flash_cache(&env, &directory);
        let engine = open(&env, &bucket, "one", cache.clone()).await;
        let rows = push_many(&engine, 5000).await;
        engine.flush().await.unwrap();
        engine.shutdown().await.unwrap();
        settled(&cache).await;
        if is_clean {
            cache.close(Duration::from_secs(10));
        }
        drop((engine, cache));

        let cache = flash_cache(&env, &directory);
        recovered(&cache).await;
        let engine = open(&env, &bucket, "two", cache.clone()).await;
        let (found, stats, _) = ask(&engine).await;
        assert_eq!(found, rows, "clean: {is_clean}");
        assert_eq!(stats.store_requests, 0, "clean: {is_clean}: {stats:?}");
        assert!(stats.page_flash_hits > 0 && stats.index_flash_hits > 0 && stats.page_flash_bytes > 0);
        let (_, again, _) = ask(&engine).await;
        assert!(
            again.page_cache_hits > 0 && again.page_flash_hits == 0,
            "the pieces that were read are in memory now"
        );
        engine.shutdown().await.unwrap();
    }
}

/// Goal: whatever happens to the directory, answers are right. Method: between two processes its file is
/// removed, cut, or damaged throughout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_or_damaged_directory_changes_no_answer() {
    for damage in ["removed", "cut", "flipped"] {
        let (env, directory) = (Env::system(1), TempDir::new().unwrap());
        let bucket = bucket(&env, Duration::ZERO);
        let cache = flash_cache(&env, &directory);
        let engine = open(&env, &bucket, "one", cache.clone()).await;
        let rows = push_many(&engine, 5000).await;
        engine.flush().await.unwrap();
        engine.shutdown().await.unwrap();
        cache.close(Duration::from_secs(10));
        drop((engine, cache));

        let path = directory.path().join("flash");
        match damage {
            "removed" => std::fs::remove_file(&path).unwrap(),
            "cut" => {
                let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.set_len(1 << 20).unwrap();
            }
            _ => {
                let mut bytes = std::fs::read(&path).unwrap();
                // Every few hundred bytes, including the roots and footers of segments.
                bytes.iter_mut().step_by(509).for_each(|byte| *byte ^= 0x10);
                std::fs::write(&path, bytes).unwrap();
            }
        }
        let cache = flash_cache(&env, &directory);
        recovered(&cache).await;
        let engine = open(&env, &bucket, "two", cache).await;
        let (found, stats, _) = ask(&engine).await;
        assert_eq!(found, rows, "{damage}");
        assert!(stats.store_requests > 0, "{damage}: {stats:?}");
        engine.shutdown().await.unwrap();
    }
}
