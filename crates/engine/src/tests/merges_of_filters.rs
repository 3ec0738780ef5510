//! Merges copy the filters of their pages: they read each segment once, or a few times with little memory,
//! and the result rules out the same pages.

use object_store::ObjectStoreExt;
use sandur_cache::Cache;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::log_block::Footer;
use sandur_query::{Needle, QueryStats};
use sandur_store::fault::FaultStore;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);
/// Number of hours with lines, each a block of some full pages.
const HOURS: i64 = 4;
/// Lines of an hour: 2.6 MiB, so that the last page is more than half full and is copied too.
pub(super) const LINES: i64 = 2_800;

/// Ids that no line has, and that filters rule out for every page.
pub(super) const ABSENT: &str = "0123456789abcdef fedcba9876543210 00112233445566778 8990aabbccddeeff0";

/// A line of 985 bytes with ids.
pub(super) fn line(hour: i64, number: i64) -> String {
    let id = |n: i64| {
        let mixed = (hour * LINES + number + 1) as u64 * 64 + n as u64;
        format!("{:016x}", mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    };
    (0..58).map(id).collect::<Vec<_>>().join(" ")
}

/// Writes the hours of a day that is over. Their rows are of different streams, so that no page must be
/// merged row by row.
pub(super) async fn write_hours(engine: &Engine) -> Vec<Row> {
    let mut rows = Vec::new();
    for hour in 0..HOURS {
        let at = |number: i64| START_NS - (80 - hour) * 3_600_000_000_000 + number;
        let app = format!("app-{hour}");
        let mut batch = BatchBuilder::new().stream(&app);
        for number in 0..LINES {
            let line = line(hour, number);
            batch = batch.row(at(number), &line);
            rows.push((app.clone(), at(number), line));
        }
        engine.push(batch.build()).await.unwrap();
        engine.flush().await.unwrap();
    }
    rows.sort();
    rows
}

/// The requests for parts of blocks.
fn reads(bucket: &FaultStore) -> usize {
    bucket.trace().iter().filter(|line| line.contains(" get blocks/")).count()
}

/// The pages that may have a needle, and those ruled out.
async fn pages_with(engine: &Arc<Engine>, needle: &str) -> (u64, u64) {
    let context = context(engine.env());
    let needle = Needle { literal: needle.as_bytes().to_vec(), ignore_ascii_case: false };
    let selection = Selection {
        matchers: Vec::new(),
        range: TimeRange::ALL,
        order: Order::OldestFirst,
        needles: Needles(vec![vec![needle]]),
        columns: Columns { lines: true, metadata: false },
        counts: false,
        counts_by: Vec::new(),
    };
    let mut scan = engine.sources().logs.scan(&context, selection).await.unwrap();
    while scan.next().await.unwrap().is_some() {}
    let stats = context.stats().snapshot();
    (stats.pages_total - stats.pages_filtered, stats.pages_filtered)
}

/// Changes a byte of each piece of the first filter segment of a block.
async fn damage_filters(bucket: &FaultStore, engine: &Engine, meta: &BlockMeta) {
    let meta = Arc::new(meta.clone());
    let block = engine.queries().reader.open::<Footer>(&meta, &QueryStats::default()).await.unwrap();
    let segment = &block.footer.filter_segments()[0];
    let (objects, path) = (bucket.objects(), object_store::path::Path::from(meta.path()));
    let mut bytes = objects.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
    for piece in (0..segment.pieces()).map(|number| segment.piece(number)) {
        bytes[piece.offset as usize + 9] ^= 4;
    }
    objects.put(&path, bytes.into()).await.unwrap();
}

/// A damaged segment rules nothing out, its block is not merged, and no row is lost.
#[tokio::test(start_paused = true)]
async fn a_damaged_segment_keeps_its_block_out_of_merges_and_costs_no_row() {
    let env = Env::simulated(75, START_NS);
    let bucket = near_bucket(&env, 75);
    let mut options = unhurried_options();
    options.maintenance.compaction.thin_bytes = 0;
    options.cache = Some(Cache::in_memory(&env, 128 << 10));
    let engine = open_on(&bucket, &env, "one", options).await;
    let rows = write_hours(&engine).await;
    let blocks = |engine: &Engine| engine.view().snapshot.all_blocks().cloned().collect::<Vec<_>>();
    let victim = blocks(&engine).remove(1);
    damage_filters(&bucket, &engine, &victim).await;
    while blocks(&engine).len() > 2 {
        env.sleep(Duration::from_secs(60)).await;
        assert!(env.monotonic() < 12 * HOUR, "the other blocks are merged");
    }
    assert!(blocks(&engine).iter().any(|block| block.id == victim.id));
    assert_eq!(read_all(&engine).await, rows);
    let (left, _) = pages_with(&engine, ABSENT).await;
    assert_eq!(left, u64::from(victim.pages), "all pages of the damaged segment, and no other");
    engine.shutdown().await.unwrap();
}

/// Merges the hours with this much memory. Returns the requests of the merge and the pages of the result.
async fn merge_with(seed: u64, memory: u64) -> (usize, u64) {
    let env = Env::simulated(seed, START_NS);
    let bucket = near_bucket(&env, seed);
    let mut options = unhurried_options();
    options.maintenance.compaction_budget = MemoryBudget::root("compaction", memory);
    options.maintenance.compaction.thin_bytes = 0;
    options.cache = Some(Cache::in_memory(&env, 128 << 10));
    let engine = open_on(&bucket, &env, "one", options).await;
    let rows = write_hours(&engine).await;
    let before = reads(&bucket);
    let blocks = |engine: &Engine| engine.view().snapshot.all_blocks().cloned().collect::<Vec<_>>();
    assert_eq!(blocks(&engine).len(), HOURS as usize);
    while blocks(&engine).len() > 1 {
        env.sleep(Duration::from_secs(60)).await;
        assert!(env.monotonic() < 12 * HOUR, "{memory} bytes are enough for a merge");
    }
    let requests = reads(&bucket) - before;
    assert_eq!(read_all(&engine).await, rows);
    let pages = u64::from(blocks(&engine)[0].pages);
    let (left, out) = pages_with(&engine, &line(1, 700)[..33]).await;
    assert_eq!((left, left + out), (1, pages), "the page with the line");
    assert_eq!(pages_with(&engine, ABSENT).await, (0, pages));
    engine.shutdown().await.unwrap();
    (requests, pages)
}

#[tokio::test(start_paused = true)]
async fn a_merge_reads_each_segment_once_although_the_cache_is_small() {
    let (requests, pages) = merge_with(71, 32 << 20).await;
    // Two for each page, and for each block its footer and one segment.
    let most = 2 * pages + 2 * HOURS as u64;
    assert!(requests as u64 <= most, "{requests} requests for {pages} pages");
}

#[tokio::test(start_paused = true)]
async fn a_merge_with_memory_for_one_filter_reads_segments_for_each_page() {
    let (requests, pages) = merge_with(72, 128 << 10).await;
    let least = 2 * pages + 2 * HOURS as u64;
    assert!(requests as u64 > least, "{requests} requests for {pages} pages");
}
