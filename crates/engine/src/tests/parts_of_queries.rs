//! Goal: the parts of a query divide its series. Each call answers each series in exactly one part, from
//! blocks and from memory, and what no series has in the first part.
//!
//! Method: logs, samples, exemplars and metadata of some thirty series are asked for as a whole and in parts.

use std::collections::BTreeMap;

use sandur_model::{Exemplar, Labels, MetricMetadata, SampleBatch};
use sandur_query::{
    MetadataSelection, Part, SampleSelection, SeriesRequest, StreamsRequest, all_series, all_texts,
};
use tempfile::TempDir;

use super::local::process;
use super::samples::{START_MS, Samples, open, push};
use super::*;

const SERIES: i64 = 30;

/// Each answer as text, by the name of the call.
type Answers = BTreeMap<&'static str, Vec<String>>;

async fn push_all(engine: &Engine, seconds: std::ops::Range<i64>) {
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    for n in 0..SERIES {
        let app = format!("app{n}");
        push_row(engine, &app, seconds.start, "line").await.unwrap();
        push(engine, &app, seconds.clone(), n as f64, &mut Samples::new()).await;
        batch.push(Arc::new(Labels::from_pairs([("__name__", "up"), ("app", app.as_str())])), []);
        let labels = Labels::from_pairs([("trace_id", format!("{n}"))]);
        batch.push_exemplar(Exemplar { labels, value: 1.0, timestamp: START_MS + seconds.start * 1_000 });
    }
    batch.metadata.push(MetricMetadata { family: "up".into(), ..MetricMetadata::default() });
    engine.push(batch).await.unwrap();
}

/// The samples of each series; the labels that the query reads do not decide its part.
async fn samples(engine: &Engine, context: &QueryContext, labels: Option<Vec<String>>) -> Vec<String> {
    let (first, last) = TimeRange::ALL.milliseconds();
    let selection = SampleSelection { labels, ..SampleSelection::all(Vec::new(), first, last) };
    let mut scan = engine.sources().samples.select(context, selection).await.unwrap();
    let mut found = Vec::new();
    while let Some(batch) = scan.next().await.unwrap() {
        for (series, samples) in batch.samples.iter().enumerate() {
            let labels = Labels::from_pairs(batch.pairs(series));
            found.push(format!("{labels} {:?} {:?}", samples.times, samples.values));
        }
    }
    found
}

async fn answers(engine: &Arc<Engine>, part: Part) -> Answers {
    let context = context(engine.env()).with_part(part);
    let source = engine.sources();
    let (logs, metrics) = (&*source.logs, &*source.samples);
    let all = SeriesRequest::everything;
    let labels_of = |series: &[Arc<Labels>]| series.iter().map(|labels| labels.to_string()).collect();
    let mut answers = Answers::new();
    let rows = read_all_with(engine, &context).await;
    answers.insert("scan", rows.iter().map(|row| format!("{row:?}")).collect());
    let volumes =
        logs.volumes(&context, StreamsRequest { matchers: Vec::new(), range: TimeRange::ALL }).await.unwrap();
    answers.insert("volumes", volumes.iter().map(|v| format!("{} {}", v.labels, v.lines)).collect());
    answers.insert("streams", labels_of(&all_series(logs, &context, all()).await.unwrap().0));
    answers.insert("series", labels_of(&all_series(metrics, &context, all()).await.unwrap().0));
    answers.insert("apps of logs", all_texts(logs, &context, all().values("app")).await.unwrap().0);
    answers.insert("apps of metrics", all_texts(metrics, &context, all().values("app")).await.unwrap().0);
    answers.insert("samples", samples(engine, &context, None).await);
    answers.insert("values", samples(engine, &context, Some(vec!["app".to_owned()])).await);
    let exemplars = metrics.exemplars(&context, all()).await.unwrap().series;
    let shown = exemplars.iter().map(|of| format!("{} {}", of.labels, of.exemplars.len()));
    answers.insert("exemplars", shown.collect());
    let metadata = metrics.metadata(&context, MetadataSelection::default()).await.unwrap().metrics;
    answers.insert("metadata", metadata.iter().map(|one| one.family.to_string()).collect());
    assert_eq!(context.warnings(), Vec::<String>::new());
    answers
}

#[test]
fn each_series_is_in_exactly_one_part_of_each_call() {
    let directory = TempDir::new().unwrap();
    process(async {
        let engine = open(directory.path()).await;
        push_all(&engine, 0..3).await;
        engine.flush().await.unwrap();
        push_all(&engine, 3..5).await;
        let whole = answers(&engine, Part::WHOLE).await;
        for (call, answer) in &whole {
            let expected = match *call {
                "metadata" => 1,
                "scan" => 2 * SERIES,
                _ => SERIES,
            };
            assert_eq!(answer.len() as i64, expected, "{call}");
        }
        for count in [2, 5] {
            let mut joined = Answers::new();
            for index in 0..count {
                let part = Part::of(index, count).unwrap();
                for (call, answer) in answers(&engine, part).await {
                    let is_some = !answer.is_empty();
                    assert!(is_some == (index == 0 || call != "metadata"), "{call} of part {index}");
                    joined.entry(call).or_default().extend(answer);
                }
            }
            for (call, mut answer) in joined {
                answer.sort();
                let mut expected = whole[call].clone();
                expected.sort();
                assert_eq!(answer, expected, "{call} in {count} parts");
            }
        }
        let part = Part::of(0, 2).unwrap();
        let (source, of_part) = (engine.sources().samples, context(engine.env()).with_part(part));
        let names = all_texts(&*source, &of_part, SeriesRequest::everything().names());
        assert_eq!(names.await.unwrap().0, ["__name__", "app"]);
        let follower = engine.sources().logs.follow(&context(engine.env()).with_part(part), Vec::new());
        assert!(follower.is_err(), "a follower of a part would return all streams");
        engine.shutdown().await.unwrap();
    });
}
