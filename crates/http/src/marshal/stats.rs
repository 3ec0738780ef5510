//! Writes the `stats` object of an answer in Loki's format from our counters.
//!
//! Loki's terms map to ours as follows: chunk of the store: page of a block; chunk of an ingester: page
//! of a head; index cache: cache of footers, counts and filters; bloom filter: needle filter. Fields
//! without a counterpart are present and zero, since Grafana and dashboards read them unconditionally.
//! `docs/reference/query-statistics.md` explains every field.

use sandur_query::StatsSnapshot;
use sandur_service::{Cost, ResultCache};

use super::json::push;

/// The value of a field.
#[derive(Clone, Copy)]
enum Value {
    Number(u64),
    Seconds(f64),
    Truth(bool),
}

use Value::{Number, Seconds, Truth};

type Field = (&'static str, Value);

fn seconds(ns: u64) -> Value {
    Seconds(ns as f64 / 1e9)
}

/// Appends `"name":value` pairs, separated by commas.
fn fields(out: &mut Vec<u8>, all: &[Field]) {
    for (n, (name, value)) in all.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        match value {
            Number(number) => push(out, format_args!("{comma}\"{name}\":{number}")),
            Seconds(number) => push(out, format_args!("{comma}\"{name}\":{number}")),
            Truth(truth) => push(out, format_args!("{comma}\"{name}\":{truth}")),
        }
    }
}

fn object(out: &mut Vec<u8>, name: &str, all: &[Field]) {
    push(out, format_args!("\"{name}\":{{"));
    fields(out, all);
    out.push(b'}');
}

/// Appends `"stats":{...}`.
pub fn write_stats(out: &mut Vec<u8>, cost: &Cost) {
    let c = &cost.counters;
    out.extend_from_slice(b"\"stats\":{");
    summary(out, cost);
    out.extend_from_slice(b",\"querier\":{");
    store(out, &StoreFigures::of_blocks(cost));
    out.push(b',');
    fields(out, &[("querierExecTime", seconds(c.execution_ns))]);
    out.extend_from_slice(b"},\"ingester\":{");
    ingester(out, c);
    out.extend_from_slice(b"},\"cache\":{");
    caches(out, cost);
    out.extend_from_slice(b"},");
    index(out, c);
    out.push(b'}');
}

fn summary(out: &mut Vec<u8>, cost: &Cost) {
    let c = &cost.counters;
    object(
        out,
        "summary",
        &[
            ("bytesProcessedPerSecond", Number(cost.per_second(cost.bytes()))),
            ("linesProcessedPerSecond", Number(cost.per_second(cost.lines()))),
            ("totalBytesProcessed", Number(cost.bytes())),
            ("totalLinesProcessed", Number(cost.lines())),
            ("execTime", Seconds(cost.execution.as_secs_f64())),
            ("queueTime", seconds(c.queue_ns)),
            ("subqueries", Number(0)),
            ("totalEntriesReturned", Number(c.entries_returned)),
            ("splits", Number(c.splits)),
            ("shards", Number(c.shards)),
            ("totalPostFilterLines", Number(c.post_filter_lines)),
            ("totalStructuredMetadataBytesProcessed", Number(cost.metadata_bytes())),
        ],
    );
}

/// The figures of blocks or of heads.
#[derive(Default)]
struct StoreFigures {
    refs: u64,
    downloaded: u64,
    download_ns: u64,
    head_bytes: u64,
    head_lines: u64,
    head_metadata_bytes: u64,
    decompressed_bytes: u64,
    decompressed_lines: u64,
    decompressed_metadata_bytes: u64,
    compressed_bytes: u64,
    duplicates: u64,
    post_filter_lines: u64,
    index_ns: u64,
}

impl StoreFigures {
    fn of_blocks(cost: &Cost) -> Self {
        let c = &cost.counters;
        Self {
            refs: c.pages_total,
            downloaded: c.pages_read,
            download_ns: cost.download_ns(),
            decompressed_bytes: c.decompressed_bytes + c.metadata_bytes,
            decompressed_lines: c.lines_processed.saturating_sub(c.head_lines),
            decompressed_metadata_bytes: c.metadata_bytes,
            compressed_bytes: c.compressed_bytes,
            duplicates: c.duplicates,
            // Rows of blocks and heads are not counted separately after filters, so this contains all.
            post_filter_lines: c.post_filter_lines,
            index_ns: c.index_ns,
            ..Self::default()
        }
    }

    fn of_heads(c: &StatsSnapshot) -> Self {
        Self {
            head_bytes: c.head_bytes + c.head_metadata_bytes,
            head_lines: c.head_lines,
            head_metadata_bytes: c.head_metadata_bytes,
            ..Self::default()
        }
    }
}

/// Counters of Loki's experimental engine, which have no counterpart here.
const DATAOBJ: [&str; 14] = [
    "prePredicateDecompressedRows",
    "prePredicateDecompressedBytes",
    "prePredicateDecompressedStructuredMetadataBytes",
    "postPredicateRows",
    "postPredicateDecompressedBytes",
    "postPredicateStructuredMetadataBytes",
    "postFilterRows",
    "pagesScanned",
    "pagesDownloaded",
    "pagesDownloadedBytes",
    "pageBatches",
    "totalRowsAvailable",
    "totalPageDownloadTime",
    "wireBytesTransferred",
];

fn store(out: &mut Vec<u8>, f: &StoreFigures) {
    let metadata = f.head_metadata_bytes + f.decompressed_metadata_bytes > 0;
    out.extend_from_slice(b"\"store\":{");
    fields(
        out,
        &[
            ("totalChunksRef", Number(f.refs)),
            ("totalChunksDownloaded", Number(f.downloaded)),
            ("chunksDownloadTime", Number(f.download_ns)),
            ("queryReferencedStructuredMetadata", Truth(metadata)),
            ("queryUsedV2Engine", Truth(false)),
        ],
    );
    out.push(b',');
    object(
        out,
        "chunk",
        &[
            ("headChunkBytes", Number(f.head_bytes)),
            ("headChunkLines", Number(f.head_lines)),
            ("decompressedBytes", Number(f.decompressed_bytes)),
            ("decompressedLines", Number(f.decompressed_lines)),
            ("compressedBytes", Number(f.compressed_bytes)),
            ("totalDuplicates", Number(f.duplicates)),
            ("postFilterLines", Number(f.post_filter_lines)),
            ("headChunkStructuredMetadataBytes", Number(f.head_metadata_bytes)),
            ("decompressedStructuredMetadataBytes", Number(f.decompressed_metadata_bytes)),
        ],
    );
    out.push(b',');
    fields(
        out,
        &[
            ("chunkRefsFetchTime", Number(f.index_ns)),
            ("congestionControlLatency", Number(0)),
            ("pipelineWrapperFilteredLines", Number(0)),
        ],
    );
    out.push(b',');
    object(out, "dataobj", &DATAOBJ.map(|name| (name, Number(0))));
    out.push(b'}');
}

fn ingester(out: &mut Vec<u8>, c: &StatsSnapshot) {
    fields(
        out,
        &[
            ("totalReached", Number(c.heads_asked)),
            ("totalChunksMatched", Number(c.head_pages)),
            ("totalBatches", Number(c.head_pages)),
            ("totalLinesSent", Number(c.head_lines)),
        ],
    );
    out.push(b',');
    store(out, &StoreFigures::of_heads(c));
}

/// The figures of one cache.
#[derive(Default)]
struct CacheFigures {
    found: u64,
    requested: u64,
    stored: u64,
    received: u64,
    sent: u64,
    ns: u64,
    length_ns: u64,
}

/// Appends Loki's caches; those without a counterpart are zero.
fn caches(out: &mut Vec<u8>, cost: &Cost) {
    let c = &cost.counters;
    let pages = || CacheFigures {
        found: cost.pages_found(),
        requested: cost.pages_wanted(),
        received: c.page_cache_bytes + c.page_flash_bytes,
        ns: c.page_cache_ns + c.page_flash_ns,
        ..CacheFigures::default()
    };
    let index = || CacheFigures {
        found: c.index_cache_hits + c.index_flash_hits,
        requested: c.index_cache_hits + c.index_flash_hits + c.index_cache_misses,
        ..CacheFigures::default()
    };
    let results = || CacheFigures {
        found: c.result_cache_hits,
        requested: c.result_cache_requests,
        stored: c.result_cache_stored,
        received: c.result_cache_bytes_received,
        sent: c.result_cache_bytes_sent,
        ns: c.result_cache_ns,
        length_ns: c.result_cache_length_ns,
    };
    let result = |which| if cost.result_cache == which { results() } else { CacheFigures::default() };
    let all = [
        ("chunk", pages()),
        ("index", index()),
        ("result", result(ResultCache::Range)),
        ("statsResult", result(ResultCache::Stats)),
        ("volumeResult", result(ResultCache::Volume)),
        ("seriesResult", result(ResultCache::Series)),
        ("labelResult", result(ResultCache::Labels)),
        ("instantMetricResult", result(ResultCache::InstantMetric)),
        ("logResult", CacheFigures::default()),
        ("taskResult", CacheFigures::default()),
    ];
    for (n, (name, f)) in all.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        object(
            out,
            name,
            &[
                ("entriesFound", Number(f.found)),
                ("entriesRequested", Number(f.requested)),
                ("entriesStored", Number(f.stored)),
                ("bytesReceived", Number(f.received)),
                ("bytesSent", Number(f.sent)),
                ("requests", Number(f.requested)),
                ("downloadTime", Number(f.ns)),
                ("queryLengthServed", Number(f.length_ns)),
            ],
        );
    }
}

fn index(out: &mut Vec<u8>, c: &StatsSnapshot) {
    object(
        out,
        "index",
        &[
            ("totalChunks", Number(c.pages_total)),
            ("postFilterChunks", Number(c.pages_total.saturating_sub(c.pages_filtered))),
            ("shardsDuration", Number(0)),
            ("usedBloomFilters", Truth(c.filters_asked > 0)),
            ("totalStreams", Number(c.streams)),
            ("chunkRefsLookupTime", seconds(c.index_ns)),
            ("bloomFilterTime", seconds(c.filter_ns)),
        ],
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn stats(cost: &Cost) -> serde_json::Value {
        let mut out = b"{".to_vec();
        write_stats(&mut out, cost);
        out.push(b'}');
        serde_json::from_slice::<serde_json::Value>(&out).unwrap()["stats"].clone()
    }

    #[test]
    fn the_object_has_all_of_lokis_fields() {
        let stats = stats(&Cost::default());
        let paths = [
            "/summary/totalStructuredMetadataBytesProcessed",
            "/querier/store/chunk/decompressedStructuredMetadataBytes",
            "/querier/store/dataobj/wireBytesTransferred",
            "/querier/querierExecTime",
            "/ingester/totalReached",
            "/ingester/store/chunk/headChunkStructuredMetadataBytes",
            "/ingester/store/dataobj/pagesScanned",
            "/cache/chunk/queryLengthServed",
            "/cache/index/entriesStored",
            "/cache/result/requests",
            "/cache/statsResult/bytesSent",
            "/cache/volumeResult/bytesReceived",
            "/cache/seriesResult/entriesRequested",
            "/cache/labelResult/entriesFound",
            "/cache/instantMetricResult/downloadTime",
            "/cache/logResult/entriesFound",
            "/cache/taskResult/entriesFound",
            "/index/chunkRefsLookupTime",
            "/index/bloomFilterTime",
        ];
        for path in paths {
            assert_eq!(stats.pointer(path).and_then(serde_json::Value::as_f64), Some(0.0), "{path}");
        }
        assert_eq!(stats["index"]["usedBloomFilters"], false);
    }

    #[test]
    fn counters_are_in_their_fields() {
        let counters = StatsSnapshot {
            head_bytes: 70,
            head_metadata_bytes: 10,
            head_lines: 2,
            decompressed_bytes: 15,
            metadata_bytes: 5,
            lines_processed: 5,
            lines_counted: 1_000,
            result_cache_hits: 3,
            result_cache_requests: 4,
            index_ns: 1_500_000_000,
            ..Default::default()
        };
        let execution = Duration::from_millis(500);
        let stats = stats(&Cost { counters, execution, result_cache: ResultCache::Volume });
        let at = |path: &str| stats.pointer(path).unwrap().as_f64().unwrap();
        assert_eq!(at("/summary/totalBytesProcessed"), 100.0);
        assert_eq!(at("/summary/bytesProcessedPerSecond"), 200.0);
        assert_eq!(at("/summary/totalStructuredMetadataBytesProcessed"), 15.0);
        assert_eq!(at("/summary/totalLinesProcessed"), 5.0);
        assert_eq!(at("/summary/execTime"), 0.5);
        assert_eq!(at("/querier/store/chunk/decompressedBytes"), 20.0);
        assert_eq!(at("/querier/store/chunk/decompressedLines"), 3.0);
        assert_eq!(at("/ingester/store/chunk/headChunkBytes"), 80.0);
        assert_eq!(at("/ingester/totalLinesSent"), 2.0);
        assert_eq!(at("/querier/store/chunkRefsFetchTime"), 1.5e9);
        assert_eq!(at("/index/chunkRefsLookupTime"), 1.5);
        assert_eq!((at("/cache/volumeResult/entriesFound"), at("/cache/result/entriesFound")), (3.0, 0.0));
        assert_eq!(at("/cache/volumeResult/entriesRequested"), 4.0);
    }
}
