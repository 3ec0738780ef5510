//! Goal: every sample and every histogram is read bit for bit as Prometheus reads it, without the deleted
//! ones.
//!
//! Method: blocks and what Prometheus's own code reads from them, both written by
//! `tests/fixtures/make/main.go` (`cargo xtask tsdb-fixtures`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use sandur_model::histogram::Buckets;
use sandur_tsdb::{BlockMeta, Chunks, Index, Samples, Series, TimedHistogram, Tombstones};
use serde::Deserialize;

/// A series as Prometheus read it.
#[derive(Debug, Deserialize, PartialEq)]
struct Expected {
    labels: BTreeMap<String, String>,
    #[serde(default)]
    floats: Vec<(String, String)>,
    #[serde(default)]
    histograms: Vec<Histogram>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Histogram {
    time: i64,
    integer: bool,
    reset: usize,
    schema: i32,
    zero_threshold: String,
    count: String,
    zero_count: String,
    sum: String,
    positive: Vec<String>,
    negative: Vec<String>,
    bounds: Vec<String>,
}

pub fn folder(block: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/blocks").join(block)
}

fn bits(value: f64) -> String {
    format!("{:016x}", value.to_bits())
}

fn shown(one: &TimedHistogram) -> Histogram {
    let buckets = |of: &Buckets| -> Vec<String> {
        of.indices.iter().zip(&of.counts).map(|(index, count)| format!("{index}:{}", bits(*count))).collect()
    };
    let of = &one.histogram;
    Histogram {
        time: one.time_ms,
        integer: one.integer,
        reset: of.reset as usize,
        schema: of.schema,
        zero_threshold: bits(of.zero_threshold),
        count: bits(of.count),
        zero_count: bits(of.zero_count),
        sum: bits(of.sum),
        positive: buckets(&of.positive),
        negative: buckets(&of.negative),
        bounds: of.bounds.iter().map(|bound| bits(*bound)).collect(),
    }
}

fn read(block: &str) -> Vec<Expected> {
    let folder = folder(block);
    let meta = BlockMeta::decode(&fs::read(folder.join("meta.json")).unwrap()).unwrap();
    let index = Index::open(File::open(folder.join("index")).unwrap()).unwrap();
    let mut chunks = Chunks::open(vec![File::open(folder.join("chunks/000001")).unwrap()]).unwrap();
    let tombstones = Tombstones::read(&File::open(folder.join("tombstones")).unwrap()).unwrap();
    let (mut reader, mut series, mut all) = (index.series(), Series::default(), Vec::new());
    let mut samples_of_block = 0;
    while reader.next_into(&mut series).unwrap() {
        let (mut samples, mut stored) = (Samples::default(), Samples::default());
        let deleted = tombstones.of(series.reference);
        for chunk in &series.chunks {
            let bytes = chunks.read(chunk.reference).unwrap();
            stored.add_chunk(bytes, |time| (chunk.min_ms..=chunk.max_ms).contains(&time)).unwrap();
            samples.add_chunk(bytes, |time| !deleted.has(time)).unwrap();
        }
        samples_of_block += stored.len() as u64;
        let text = |number| index.symbols().get(number).unwrap().to_owned();
        let labels = series.labels.iter().map(|(name, value)| (text(*name), text(*value))).collect();
        let floats = samples.floats.iter().map(|(time, value)| (time.to_string(), bits(*value)));
        let mut histograms = Vec::new();
        samples.each_histogram(|one| histograms.push(shown(one)));
        if !samples.is_empty() {
            all.push(Expected { labels, floats: floats.collect(), histograms });
        }
    }
    assert_eq!(samples_of_block, meta.samples(), "{block}: as many as meta.json says");
    all.sort_by(|a, b| a.labels.cmp(&b.labels));
    all
}

fn compare(block: &str) -> usize {
    let expected = fs::read(folder(&format!("{block}.json"))).unwrap();
    let mut expected: Vec<Expected> = serde_json::from_slice(&expected).unwrap();
    expected.sort_by(|a, b| a.labels.cmp(&b.labels));
    let found = read(block);
    assert_eq!(found.len(), expected.len(), "{block}: series");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{block}");
    }
    found.iter().map(|one| one.floats.len() + one.histograms.len()).sum()
}

#[test]
fn floats_are_read_as_prometheus_reads_them() {
    assert_eq!(compare("floats"), 12 * 300 + 1 + 60);
}

#[test]
fn histograms_are_read_as_prometheus_reads_them() {
    assert_eq!(compare("histograms"), 6 * 150 + 2 + 40 + 30);
}

#[test]
fn deleted_samples_are_left_out() {
    assert_eq!(compare("deleted"), 200 + 160);
}

#[test]
fn the_description_of_a_block_has_the_labels_of_thanos() {
    let json = |thanos: &str| format!(r#"{{"ulid":"01A","minTime":1,"maxTime":2,"version":1{thanos}}}"#);
    let meta = BlockMeta::decode(json(r#","thanos":{"labels":{"cluster":"a"}}"#).as_bytes()).unwrap();
    assert_eq!(meta.external_labels().collect::<Vec<_>>(), [("cluster", "a")]);
    assert_eq!(BlockMeta::decode(json("").as_bytes()).unwrap().external_labels().count(), 0);
    assert!(!meta.is_downsampled());
    let downsampled = r#","thanos":{"downsample":{"resolution":300000}}"#;
    assert!(BlockMeta::decode(json(downsampled).as_bytes()).unwrap().is_downsampled());
    let of_mimir = r#","thanos":{"labels":{"__org_id__":"a","__compactor_shard_id__":"1_of_4","b":"c"}}"#;
    let meta = BlockMeta::decode(json(of_mimir).as_bytes()).unwrap();
    assert_eq!(meta.external_labels().collect::<Vec<_>>(), [("b", "c")]);
}
