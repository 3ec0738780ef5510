//! Blocks of several days are merged, cut, expired, rolled and cleaned, and answers do not change.

use std::sync::Arc;

use sandur_base::Id;
use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{DAY_NS, Dataset, Labels, SampleBatch, graphite_path_labels};

use super::retention::{World, joined, logs, metrics, push_old, push_samples};
use super::rollups::{self, World as Rolling, path, rolled};
use super::samples::{Samples, all};
use super::*;
use crate::Retention;
use crate::windows::is_long;

const HOUR: Duration = Duration::from_secs(3_600);
/// Raw bytes from which long blocks are cut in these tests.
const LONG_BYTES: u64 = 3_000;

/// Options with which everything is thin and long blocks are soon large.
fn thin(mut options: EngineOptions) -> EngineOptions {
    options.maintenance.compaction.thin_bytes = 1 << 20;
    options.maintenance.compaction.long_raw_bytes_max = LONG_BYTES;
    options
}

async fn open(world: &World, name: &str) -> Arc<Engine> {
    open_on(&world.bucket, &world.env, name, thin(world.options())).await
}

fn long(engine: &Engine, dataset: &Dataset) -> Vec<Arc<BlockMeta>> {
    let view = engine.view();
    let blocks = view.snapshot.blocks(dataset, TimeRange::ALL);
    blocks.filter(|block| is_long(block.window)).cloned().collect()
}

/// Pseudorandom numbers that depend only on a seed.
fn dice(seed: u64) -> impl FnMut(i64) -> i64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as i64).rem_euclid(below)
    }
}

/// A backfill in a random order of days, with corrected values, on two processes of which one ends:
/// after each step the answers equal the pushed rows, and in the end each day has its own blocks.
#[tokio::test(start_paused = true)]
async fn a_backfill_of_many_days_is_merged_and_cut_into_days() {
    for seed in 0..1u64 {
        let world = World::new(100 + seed, Retention::default());
        let (one, mut two) = (open(&world, "one").await, open(&world, "two").await);
        let path = Arc::new(graphite_path_labels("site.load").unwrap());
        let (mut rolls, mut lines, mut samples) = (dice(seed), Vec::new(), Vec::new());
        for round in 0..16 {
            let engine = if rolls(2) == 0 { &one } else { &two };
            for _ in 0..6 {
                let (days, from) = (2 + rolls(300), rolls(3_000));
                lines.push(push_old(engine, "a", days, from..from + 5).await);
                samples.push(push_samples(engine, "a", days, from..from + 5).await);
                let time_ms = (START_NS - (2 + rolls(4)) * 50 * DAY_NS) / 1_000_000;
                let mut batch = SampleBatch::new(TenantId::default_tenant());
                batch.push(Arc::clone(&path), [(time_ms, f64::from(round))]);
                engine.push(batch).await.unwrap();
                let bits = [(time_ms, f64::from(round).to_bits())].into();
                samples.push(Samples::from([(path.to_string(), bits)]));
                // The other process has read it before it may accept the next value of this instant.
                world.env.sleep(Duration::from_secs(130)).await;
            }
            engine.flush().await.unwrap();
            world.env.sleep(Duration::from_secs(400 * rolls(3) as u64)).await;
            if round == 8 {
                drop(two);
                two = open(&world, "three").await;
                world.env.sleep(HOUR).await;
            }
            let mut expected = sorted(lines.iter().cloned());
            expected.dedup();
            assert_eq!(read_all(&one).await, expected, "seed {seed}, round {round}");
            assert_eq!(all(&two).await, joined(samples.iter().cloned()), "seed {seed}, round {round}");
        }
        two.flush().await.unwrap();
        world.env.sleep(6 * HOUR).await;
        for dataset in [logs(), metrics()] {
            let left = long(&one, &dataset);
            assert!(left.iter().all(|block| block.raw_bytes < LONG_BYTES), "seed {seed}: {left:?}");
            let blocks = one.view().snapshot.blocks(&dataset, TimeRange::ALL).count();
            assert!((8..150).contains(&blocks), "seed {seed}: {blocks} blocks");
        }
        assert_eq!(all(&one).await, joined(samples));
    }
}

/// Rows of a long block that are past their period are removed although the block has younger rows.
#[tokio::test(start_paused = true)]
async fn rows_of_a_long_block_are_removed_when_their_period_is_over() {
    let world = World::new(120, Retention::default());
    let engine = open(&world, "one").await;
    let (mut lines, mut samples) = (Vec::new(), Vec::new());
    for days in (4..124).step_by(3) {
        lines.push((days, push_old(&engine, "a", days, 0..3).await));
        samples.push((days, push_samples(&engine, "a", days, 0..3).await));
    }
    engine.flush().await.unwrap();
    assert_eq!([logs(), metrics()].map(|dataset| long(&engine, &dataset).len()), [1, 1]);
    world.configure(Retention::uniform(60 * DAY_NS));
    world.env.sleep(6 * HOUR).await;
    for passed in [0, 2] {
        world.env.sleep(passed as u32 * 24 * HOUR).await;
        let kept = |days: &i64| days + passed < 60;
        let of_lines = sorted(lines.iter().filter(|(days, _)| kept(days)).map(|(_, rows)| rows.clone()));
        let of_samples = joined(samples.iter().filter(|(days, _)| kept(days)).map(|(_, of)| of.clone()));
        let (found, values) = (read_all(&engine).await, all(&engine).await);
        let missing = of_lines.iter().filter(|row| !found.contains(row)).count();
        assert_eq!(missing, 0, "no row is removed too early");
        let too_old = START_NS - (60 - passed) * DAY_NS - 9 * DAY_NS;
        assert!(
            found.iter().all(|(_, time, _)| *time > too_old),
            "rows stay at most an eighth of the block's length longer"
        );
        for (series, points) in &of_samples {
            let found = &values[series];
            assert!(points.iter().all(|(time, value)| found.get(time) == Some(value)));
            assert!(found.keys().all(|time| time * 1_000_000 > too_old));
        }
    }
}

/// Points of a dense day that were in one push with those of other days are part of its rollup.
#[tokio::test(start_paused = true)]
async fn a_day_is_rolled_with_its_points_in_long_blocks() {
    let world = Rolling::new(130, &[(1, 1), (60, 1_000)]);
    let mut options = thin(world.options());
    options.maintenance.compaction.thin_bytes = 16 * 1_000;
    let engine = world.open_with("one", options).await;
    let labels = path("a.n5");
    let mut dense = rollups::push(&engine, &labels, 5, 0..3_000).await;
    let mut others = Vec::new();
    for days in [3, 4, 6, 40, 90] {
        others.push(rollups::push(&engine, &path(&format!("a.n{days}")), days, 0..20).await);
    }
    engine.flush().await.unwrap();
    let late = rollups::push(&engine, &labels, 5, 3_000..3_040).await;
    others.push(rollups::push(&engine, &path("a.n200"), 200, 0..20).await);
    engine.flush().await.unwrap();
    assert!(!long(&engine, &metrics()).is_empty());
    dense = rollups::joined([dense, late]);
    world.env.sleep(12 * HOUR).await;
    let found = rollups::all(&engine).await;
    for (series, steps) in rolled(&labels, &dense, 60) {
        assert_eq!(found.get(&series), Some(&steps), "{series}");
    }
    assert_eq!(found.get(&labels.to_string()), None, "no point is left next to the rollup");
    let others = rollups::joined(others);
    assert!(others.iter().all(|(series, points)| found.get(series) == Some(points)), "thin days stay");
}

/// A delete request hides and removes rows of some days of a long block, which is cut afterwards.
#[tokio::test(start_paused = true)]
async fn deletes_remove_days_from_long_blocks() {
    let world = World::new(140, Retention::default());
    let engine = open(&world, "one").await;
    let (mut lines, mut samples) = (Vec::new(), Vec::new());
    for days in 4..60 {
        lines.push(push_old(&engine, "a", days, 0..4).await);
        samples.push(push_samples(&engine, "a", days, 0..4).await);
    }
    engine.flush().await.unwrap();
    let ms = |days: i64| (START_NS - days * DAY_NS) / 1_000_000;
    let mut ids: Vec<(Dataset, Id)> = Vec::new();
    for (dataset, query) in [(logs(), "a"), (metrics(), "a")] {
        let id = engine.create_delete(&dataset, query, ms(30), ms(20) + 4_000).await.unwrap();
        ids.push((dataset, id));
    }
    let left = |days: &i64| !(20..=30).contains(days);
    let expected = sorted((4..60).zip(&lines).filter(|(days, _)| left(days)).map(|(_, rows)| rows.clone()));
    let values = joined((4..60).zip(&samples).filter(|(days, _)| left(days)).map(|(_, of)| of.clone()));
    for hours in [0, 1, 12] {
        world.env.sleep(hours * HOUR).await;
        assert_eq!((read_all(&engine).await, all(&engine).await), (expected.clone(), values.clone()));
    }
    for (dataset, id) in ids {
        assert!(!engine.view().snapshot.delete(&dataset, id).unwrap().is_open());
        assert!(long(&engine, &dataset).iter().all(|block| block.raw_bytes < LONG_BYTES));
    }
}

/// A query of one day reads few pages of a long block, and counts only rows of that day.
#[tokio::test(start_paused = true)]
async fn a_query_of_a_day_reads_a_small_part_of_a_long_block() {
    let world = World::new(150, Retention::default());
    let mut options = thin(world.options());
    options.maintenance.compaction.long_raw_bytes_max = 1 << 30;
    options.maintenance.compaction.thin_bytes = 64 << 20;
    let engine = open_on(&world.bucket, &world.env, "one", options).await;
    let labels = Arc::new(Labels::from_pairs([("app", "a")]));
    let mut builder = sandur_model::LogBatchBuilder::new(TenantId::default_tenant());
    for day in 0..400i64 {
        for n in 0..4 {
            let timestamp = START_NS - day * DAY_NS + n;
            let line = format!("{day} {n} {}", "x".repeat(1_000));
            builder.row_with(&labels, timestamp, line, [("k", "v")], sandur_model::Level::Info);
        }
    }
    engine.push(builder.build()).await.unwrap();
    engine.flush().await.unwrap();
    let block = long(&engine, &logs())[0].clone();
    assert!(block.pages >= 16, "{} pages", block.pages);
    let context = context(engine.env());
    let day = START_NS - 200 * DAY_NS;
    let selection = Selection {
        matchers: Vec::new(),
        range: TimeRange::new(day, day + 10),
        order: Order::OldestFirst,
        needles: Needles::default(),
        columns: Columns { lines: true, metadata: true },
        counts: false,
        counts_by: Vec::new(),
    };
    let mut scan = engine.sources().logs.scan(&context, selection).await.unwrap();
    let (mut rows, mut pages) = (0, 0);
    while let Some(item) = scan.next().await.unwrap() {
        let ScanItem::Page(mut task) = item else { panic!("no counts were requested") };
        let page = task.narrow().unwrap();
        (rows, pages) = (rows + page.runs.iter().map(|run| run.end - run.start).sum::<u32>(), pages + 1);
    }
    assert_eq!((rows, pages), (4, 1));
}
