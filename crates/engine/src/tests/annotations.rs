//! Exemplars and metadata: from the push to merged blocks, and to the answers of queries.

use sandur_catalog::DeleteProgress;
use sandur_model::{Exemplar, Labels, MatchOp, Matcher, MetricMetadata, SampleBatch};
use sandur_query::{Exemplars, MetadataSelection, SeriesRequest};
use tempfile::TempDir;

use super::disks::Disk;
use super::local::process;
use super::samples::{START_MS, Samples, all, blocks, metrics, open, push, until};
use super::*;

/// Pushes an exemplar of `up{app=APP}` for each of these seconds. Returns them as text.
async fn push_exemplars(engine: &Engine, app: &str, seconds: std::ops::Range<i64>) -> Vec<String> {
    let labels = Arc::new(Labels::from_pairs([("__name__", "up"), ("app", app)]));
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    batch.push(Arc::clone(&labels), []);
    let exemplar = |n: i64| Exemplar {
        labels: Labels::from_pairs([("trace_id", format!("{app}-{n}"))]),
        value: if n == 7 { f64::from_bits(0x7ff0_0000_0000_0002) } else { n as f64 / 3.0 },
        timestamp: START_MS + n * 1_000,
    };
    let all: Vec<Exemplar> = seconds.map(exemplar).collect();
    all.iter().for_each(|one| batch.push_exemplar(one.clone()));
    engine.push(batch).await.unwrap();
    all.iter().map(|one| shown(&labels, one)).collect()
}

fn shown(labels: &Labels, one: &Exemplar) -> String {
    format!("{labels} {} {:x} at {}", one.labels, one.value.to_bits(), one.timestamp - START_MS)
}

async fn tell(engine: &Engine, family: &str, help: &str) {
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    let (family, help) = (family.into(), help.into());
    batch.metadata.push(MetricMetadata { family, help, ..MetricMetadata::default() });
    engine.push(batch).await.unwrap();
}

async fn ask(
    engine: &Engine,
    context: &QueryContext,
    any_of: Vec<Vec<Matcher>>,
    range: TimeRange,
) -> Vec<String> {
    let samples = engine.sources().samples;
    let Exemplars { series, held } =
        samples.exemplars(context, SeriesRequest::any_of(any_of, range)).await.unwrap();
    assert!(series.is_sorted_by(|a, b| a.labels < b.labels));
    let of_series =
        series.iter().flat_map(|of| of.exemplars.iter().map(|one| shown(&of.labels, one))).collect();
    drop(held);
    assert_eq!(context.budget().used(), 0, "memory is released");
    of_series
}

async fn exemplars(engine: &Engine) -> Vec<String> {
    let context = context(engine.env());
    let found = ask(engine, &context, Vec::new(), TimeRange::ALL).await;
    assert_eq!(context.warnings(), Vec::<String>::new());
    found
}

async fn metadata(engine: &Engine, family: Option<&str>) -> Vec<String> {
    let context = context(engine.env());
    let selection = MetadataSelection { family: family.map(str::to_owned), ..MetadataSelection::default() };
    let found = engine.sources().samples.metadata(&context, selection).await.unwrap();
    assert_eq!(context.warnings(), Vec::<String>::new());
    found.metrics.iter().map(|one| format!("{}: {}", one.family, one.help)).collect()
}

#[test]
fn exemplars_and_metadata_survive_flushes_restarts_and_merges_bit_for_bit() {
    let directory = TempDir::new().unwrap();
    let mut expected = Vec::new();
    process(async {
        let engine = open(directory.path()).await;
        push(&engine, "a", 0..20, 1.0, &mut Samples::new()).await;
        // Of a series without samples, and at a time without samples of any series.
        let late = push_exemplars(&engine, "b", 7_300..7_302).await;
        expected.extend(push_exemplars(&engine, "a", 0..10).await);
        expected.extend(late);
        tell(&engine, "up", "Whether it is up.").await;
        assert_eq!(exemplars(&engine).await, expected);
        engine.flush().await.unwrap();
        assert_eq!((blocks(&engine, &metrics()), engine.view().head_totals().memory_bytes), (2, 0));
        assert_eq!((exemplars(&engine).await, metadata(&engine, None).await.len()), (expected.clone(), 1));
        // The same exemplars once more, and others that stay in the WAL.
        push_exemplars(&engine, "a", 5..10).await;
        let more = push_exemplars(&engine, "a", 10..12).await;
        expected.splice(10..10, more);
        assert_eq!(exemplars(&engine).await, expected);
    });
    process(async {
        let engine = open(directory.path()).await;
        assert_eq!(exemplars(&engine).await, expected);
        for _ in 0..4 {
            push_exemplars(&engine, "a", 0..3).await;
            engine.flush().await.unwrap();
        }
        until(&engine, |snapshot| snapshot.blocks(&metrics(), TimeRange::ALL).count() < 4).await;
        assert_eq!(exemplars(&engine).await, expected);
        assert_eq!(metadata(&engine, None).await, ["up: Whether it is up."]);
        let a = vec![
            Matcher::new("__name__", MatchOp::Equal, "up").unwrap(),
            Matcher::new("app", MatchOp::Regex, "a|x").unwrap(),
        ];
        let range = TimeRange::of_milliseconds(START_MS + 3_000, START_MS + 4_000);
        let found = ask(&engine, &context(engine.env()), vec![a], range).await;
        assert_eq!(found, expected[3..5]);
        let none = vec![Matcher::new("__name__", MatchOp::Equal, "down").unwrap()];
        assert!(ask(&engine, &context(engine.env()), vec![none], TimeRange::ALL).await.is_empty());
        engine.shutdown().await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_metadata_of_a_family_is_returned_and_kept() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    // Metadata is in the block of the latest samples of its flush: these are of three windows.
    for (slot, help) in [(0, "old"), (2, "new"), (1, "between")] {
        push(&engine, "a", slot * 7_200..slot * 7_200 + 1, 1.0, &mut Samples::new()).await;
        tell(&engine, "up", help).await;
        tell(&engine, &format!("of_{help}"), help).await;
        engine.flush().await.unwrap();
    }
    assert_eq!(
        metadata(&engine, None).await,
        ["of_between: between", "of_new: new", "of_old: old", "up: new"]
    );
    assert_eq!(metadata(&engine, Some("up")).await, ["up: new"]);
    tell(&engine, "up", "newest").await;
    tell(&engine, "up", "another").await;
    assert_eq!(
        metadata(&engine, Some("up")).await,
        ["up: another", "up: newest"],
        "all metadata of the heads"
    );
    engine.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_exemplars_are_hidden_at_once_and_removed() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    // The series has only exemplars: no sample causes its block to be examined.
    let mut expected = push_exemplars(&engine, "a", 0..10).await;
    expected.extend(push_exemplars(&engine, "b", 0..3).await);
    tell(&engine, "up", "kept").await;
    engine.flush().await.unwrap();
    expected.splice(10..10, push_exemplars(&engine, "a", 10..12).await);
    assert_eq!(exemplars(&engine).await, expected);
    let id = engine.create_delete(&metrics(), "a", START_MS + 2_000, START_MS + 10_000).await.unwrap();
    expected.drain(2..11);
    assert_eq!(exemplars(&engine).await, expected, "hidden at once, in blocks and heads");
    engine.flush().await.unwrap();
    let is_processed = move |snapshot: &sandur_catalog::Snapshot| {
        let record = snapshot.delete(&metrics(), id).map(|record| record.progress);
        matches!(record, Some(DeleteProgress::Processed { .. }))
    };
    until(&engine, is_processed).await;
    assert_eq!(exemplars(&engine).await, expected, "removed from blocks");
    assert_eq!(metadata(&engine, None).await, ["up: kept"], "a block without samples stays for its metadata");
    assert_eq!(all(&engine).await, Samples::new());
    engine.shutdown().await.unwrap();
}

#[test]
fn a_damaged_page_loses_its_exemplars_and_adds_a_warning() {
    let directory = TempDir::new().unwrap();
    let (mut kept, mut first) = (Vec::new(), String::new());
    process(async {
        let engine = open(directory.path()).await;
        push_exemplars(&engine, "a", 0..10).await;
        engine.flush().await.unwrap();
        kept = push_exemplars(&engine, "b", 0..3).await;
        engine.flush().await.unwrap();
        let blocks = engine.view().snapshot.clone();
        first = blocks.blocks(&metrics(), TimeRange::ALL).map(|block| block.path()).min().unwrap();
        engine.shutdown().await.unwrap();
    });
    let path = directory.path().join(&first);
    let mut bytes = std::fs::read(&path).unwrap();
    // The page of exemplars follows the header; the block has nothing else.
    bytes[12] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    process(async {
        let engine = open(directory.path()).await;
        let context = context(engine.env());
        assert_eq!(ask(&engine, &context, Vec::new(), TimeRange::ALL).await, kept);
        let warnings = context.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains(&first), "{warnings:?}");
        engine.shutdown().await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exemplars_and_metadata_stay_within_the_budget_of_their_query() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    push_exemplars(&engine, "a", 0..900).await;
    tell(&engine, "up", &"x".repeat(60_000)).await;
    for flushed in [false, true] {
        if flushed {
            engine.flush().await.unwrap();
        }
        let budget = sandur_memory::MemoryBudget::root("a small query", 50_000);
        let tenant = TenantId::default_tenant();
        let poor =
            QueryContext::new(engine.env().clone(), tenant, budget.clone(), Duration::from_secs(3_600));
        let samples = engine.sources().samples;
        let refused = samples.exemplars(&poor, SeriesRequest::everything()).await.err().unwrap();
        assert!(refused.to_string().contains("a small query"), "{refused}, flushed: {flushed}");
        let refused = samples.metadata(&poor, MetadataSelection::default()).await.err().unwrap();
        assert!(refused.to_string().contains("a small query"), "{refused}, flushed: {flushed}");
        assert_eq!(budget.used(), 0);
    }
    engine.shutdown().await.unwrap();
}

/// Samples, exemplars and metadata on a disk that fills up: acknowledged ones are returned, and other
/// pushes are refused completely. All acknowledged ones are found when there is space again and after a
/// restart.
#[test]
fn on_a_full_disk_metrics_are_returned_and_no_push_is_partly_applied() {
    let Some(disk) = Disk::mount() else { return };
    let (mut samples, mut expected) = (Samples::new(), Vec::new());
    process(async {
        let engine = open(&disk.store()).await;
        push(&engine, "a", 0..10, 1.5, &mut samples).await;
        expected.extend(push_exemplars(&engine, "a", 0..5).await);
        tell(&engine, "up", "flushed").await;
        engine.flush().await.unwrap();
        push(&engine, "b", 0..10, 2.5, &mut samples).await;
        expected.extend(push_exemplars(&engine, "b", 0..5).await);
        disk.fill();
        let labels = Arc::new(Labels::from_pairs([("__name__", "up"), ("app", "refused")]));
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        // More than fits into the last page of the WAL's file.
        batch.push(labels, (0..50_000).map(|n| (START_MS + n * 997 % 65_537, (n as f64).sqrt())));
        batch.push_exemplar(Exemplar { labels: Labels::default(), value: 1.0, timestamp: START_MS });
        batch.metadata.push(MetricMetadata { family: "refused".into(), ..MetricMetadata::default() });
        let error = engine.push(batch).await.unwrap_err();
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
        assert_eq!((all(&engine).await, exemplars(&engine).await), (samples.clone(), expected.clone()));
        assert_eq!(metadata(&engine, None).await, ["up: flushed"]);
        disk.free();
    });
    process(async {
        let engine = open(&disk.store()).await;
        assert_eq!((all(&engine).await, exemplars(&engine).await), (samples.clone(), expected.clone()));
        push(&engine, "c", 0..3, 3.5, &mut samples).await;
        engine.flush().await.unwrap();
        assert_eq!((all(&engine).await, exemplars(&engine).await), (samples.clone(), expected.clone()));
        engine.shutdown().await.unwrap();
    });
}
