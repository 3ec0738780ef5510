//! The parts of a block that queries read are decoded when the block is written.

use sandur_model::{MatchOp, Matcher};
use sandur_query::{SampleScan, SampleSelection, SeriesRequest, all_texts};
use tempfile::TempDir;

use super::samples::{START_MS, Samples, open, push};
use super::*;

async fn read_all(scan: &mut dyn SampleScan) -> usize {
    let mut series = 0;
    while let Some(batch) = scan.next().await.unwrap() {
        series += batch.labels.len();
    }
    series
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_query_decodes_nothing_of_a_new_block() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    let mut expected = Samples::new();
    for app in 0..70 {
        push(&engine, &format!("app-{app}"), 0..300, 1.0, &mut expected).await;
    }
    engine.flush().await.unwrap();
    let warming = engine.writer().take_warming().unwrap();
    warming.join().await.unwrap();
    let cache = engine.queries().reader.cache();
    assert!(cache.bytes() > 0);
    let (_, misses) = cache.hits_and_misses();
    let samples = engine.sources().samples;
    let context = context(engine.env());
    let matchers = vec![
        Matcher::new("__name__", MatchOp::Equal, "up").unwrap(),
        Matcher::new("app", MatchOp::Regex, "app-[1-6].*").unwrap(),
    ];
    let selection = SampleSelection::all(matchers.clone(), START_MS, START_MS + 60_000);
    let mut scan = samples.select(&context, selection).await.unwrap();
    assert!(read_all(&mut *scan).await > 50);
    let (values, _) =
        all_texts(&*samples, &context, SeriesRequest::new(matchers, TimeRange::ALL).values("app"))
            .await
            .unwrap();
    assert!(values.len() > 50);
    assert_eq!(cache.hits_and_misses().1, misses, "nothing was decoded again");
}
