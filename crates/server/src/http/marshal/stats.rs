//! The `stats` object of an answer in Loki's shape, filled from our counters.
//!
//! Words map like this: block -> chunk reference, page -> chunk, heads -> ingester, store -> chunk
//! download. Fields of Loki that have no counterpart here are present and zero: Grafana and
//! dashboards read them unconditionally.

use std::time::Duration;

use sandur_query::StatsSnapshot;

use super::json::push;

/// What one query cost.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Counters of the query.
    pub counters: StatsSnapshot,
    /// From arrival to the answer, without the queue.
    pub execution: Duration,
}

impl Cost {
    /// Bytes of lines that were looked at.
    pub fn bytes(&self) -> u64 {
        self.counters.head_bytes + self.counters.decompressed_bytes
    }

    /// Lines that were looked at or counted.
    pub fn lines(&self) -> u64 {
        self.counters.lines_processed + self.counters.lines_counted
    }

    /// `amount` per second of execution.
    pub fn per_second(&self, amount: u64) -> u64 {
        let seconds = self.execution.as_secs_f64();
        if seconds > 0.0 { (amount as f64 / seconds) as u64 } else { 0 }
    }

    /// Time in the queue.
    pub fn queue(&self) -> Duration {
        Duration::from_nanos(self.counters.queue_ns)
    }
}

/// Appends `"stats":{...}`.
pub fn write_stats(out: &mut Vec<u8>, cost: &Cost) {
    out.extend_from_slice(b"\"stats\":{");
    summary(out, cost);
    out.extend_from_slice(b",\"querier\":{");
    store(out, &StoreFigures::of_blocks(&cost.counters));
    push(out, format_args!(",\"querierExecTime\":{}}}", seconds(cost.counters.execution_ns)));
    ingester(out, &cost.counters);
    caches(out, &cost.counters);
    index(out, &cost.counters);
    out.push(b'}');
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn summary(out: &mut Vec<u8>, cost: &Cost) {
    let counters = &cost.counters;
    push(
        out,
        format_args!(
            "\"summary\":{{\"bytesProcessedPerSecond\":{},\"linesProcessedPerSecond\":{},\
             \"totalBytesProcessed\":{},\"totalLinesProcessed\":{},\"execTime\":{},\"queueTime\":{},\
             \"subqueries\":0,\"totalEntriesReturned\":{},\"splits\":{},\"shards\":{},\
             \"totalPostFilterLines\":{},\"totalStructuredMetadataBytesProcessed\":{}}}",
            cost.per_second(cost.bytes()),
            cost.per_second(cost.lines()),
            cost.bytes(),
            cost.lines(),
            cost.execution.as_secs_f64(),
            seconds(counters.queue_ns),
            counters.entries_returned,
            counters.blocks_opened,
            counters.pages_read + counters.head_pages,
            counters.post_filter_lines,
            counters.metadata_bytes,
        ),
    );
}

/// What one side of the store (blocks or heads) contributed.
#[derive(Default)]
struct StoreFigures {
    refs: u64,
    downloaded: u64,
    download_ns: u64,
    head_bytes: u64,
    head_lines: u64,
    decompressed_bytes: u64,
    decompressed_lines: u64,
    compressed_bytes: u64,
    duplicates: u64,
    post_filter_lines: u64,
    index_ns: u64,
    metadata: bool,
}

impl StoreFigures {
    fn of_blocks(c: &StatsSnapshot) -> Self {
        Self {
            refs: c.pages_total,
            downloaded: c.pages_read,
            download_ns: c.store_ns + c.cache_ns,
            decompressed_bytes: c.decompressed_bytes,
            decompressed_lines: c.lines_processed.saturating_sub(c.head_lines),
            compressed_bytes: c.compressed_bytes,
            duplicates: c.duplicates,
            post_filter_lines: c.post_filter_lines,
            index_ns: c.index_ns,
            metadata: c.metadata_bytes > 0,
            ..Self::default()
        }
    }

    fn of_heads(c: &StatsSnapshot) -> Self {
        Self { head_bytes: c.head_bytes, head_lines: c.head_lines, ..Self::default() }
    }
}

fn store(out: &mut Vec<u8>, f: &StoreFigures) {
    push(
        out,
        format_args!(
            "\"store\":{{\"totalChunksRef\":{},\"totalChunksDownloaded\":{},\"chunksDownloadTime\":{},\
             \"queryReferencedStructuredMetadata\":{},\"queryUsedV2Engine\":false,\
             \"chunk\":{{\"headChunkBytes\":{},\"headChunkLines\":{},\"decompressedBytes\":{},\
             \"decompressedLines\":{},\"compressedBytes\":{},\"totalDuplicates\":{},\"postFilterLines\":{},\
             \"headChunkStructuredMetadataBytes\":0,\"decompressedStructuredMetadataBytes\":0}},\
             \"chunkRefsFetchTime\":{},\"congestionControlLatency\":0,\"pipelineWrapperFilteredLines\":0,",
            f.refs,
            f.downloaded,
            f.download_ns,
            f.metadata,
            f.head_bytes,
            f.head_lines,
            f.decompressed_bytes,
            f.decompressed_lines,
            f.compressed_bytes,
            f.duplicates,
            f.post_filter_lines,
            f.index_ns,
        ),
    );
    // Loki's experimental engine; nothing here corresponds to it.
    out.extend_from_slice(
        b"\"dataobj\":{\"prePredicateDecompressedRows\":0,\"prePredicateDecompressedBytes\":0,\
          \"prePredicateDecompressedStructuredMetadataBytes\":0,\"postPredicateRows\":0,\
          \"postPredicateDecompressedBytes\":0,\"postPredicateStructuredMetadataBytes\":0,\
          \"postFilterRows\":0,\"pagesScanned\":0,\"pagesDownloaded\":0,\"pagesDownloadedBytes\":0,\
          \"pageBatches\":0,\"totalRowsAvailable\":0,\"totalPageDownloadTime\":0}}",
    );
}

fn ingester(out: &mut Vec<u8>, counters: &StatsSnapshot) {
    push(
        out,
        format_args!(
            ",\"ingester\":{{\"totalReached\":1,\"totalChunksMatched\":{},\"totalBatches\":{},\
             \"totalLinesSent\":{},",
            counters.head_pages, counters.head_pages, counters.head_lines,
        ),
    );
    store(out, &StoreFigures::of_heads(counters));
    out.push(b'}');
}

/// Loki's caches; the page cache counts as the chunk cache.
fn caches(out: &mut Vec<u8>, counters: &StatsSnapshot) {
    let names = [
        "chunk",
        "index",
        "result",
        "statsResult",
        "volumeResult",
        "seriesResult",
        "labelResult",
        "instantMetricResult",
    ];
    out.extend_from_slice(b",\"cache\":{");
    for (n, name) in names.iter().enumerate() {
        let (found, missed, bytes, ns) = match n {
            0 => (counters.cache_hits, counters.cache_misses, counters.cache_bytes, counters.cache_ns),
            _ => (0, 0, 0, 0),
        };
        let comma = if n == 0 { "" } else { "," };
        let requested = found + missed;
        push(
            out,
            format_args!(
                "{comma}\"{name}\":{{\"entriesFound\":{found},\"entriesRequested\":{requested},\
                 \"entriesStored\":0,\"bytesReceived\":{bytes},\"bytesSent\":0,\"requests\":{requested},\
                 \"downloadTime\":{ns},\"queryLengthServed\":0}}"
            ),
        );
    }
    out.push(b'}');
}

fn index(out: &mut Vec<u8>, counters: &StatsSnapshot) {
    let kept = counters.pages_total.saturating_sub(counters.pages_filtered);
    push(
        out,
        format_args!(
            ",\"index\":{{\"totalChunks\":{},\"postFilterChunks\":{kept},\"shardsDuration\":0,\
             \"usedBloomFilters\":{},\"totalStreams\":{},\"chunkRefsLookupTime\":{},\"bloomFilterTime\":0}}",
            counters.pages_total,
            counters.pages_filtered > 0,
            counters.streams,
            counters.index_ns,
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_has_all_of_lokis_fields() {
        let counters = StatsSnapshot {
            head_bytes: 80,
            decompressed_bytes: 20,
            lines_processed: 5,
            ..Default::default()
        };
        let cost = Cost { counters, execution: Duration::from_millis(500) };
        let mut out = b"{".to_vec();
        write_stats(&mut out, &cost);
        out.push(b'}');
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let stats = &value["stats"];
        assert_eq!(stats["summary"]["totalBytesProcessed"], 100);
        assert_eq!(stats["summary"]["bytesProcessedPerSecond"], 200);
        assert_eq!(stats["summary"]["execTime"], 0.5);
        let paths = [
            "/querier/store/chunk/decompressedLines",
            "/querier/store/dataobj/pagesScanned",
            "/querier/querierExecTime",
            "/ingester/totalReached",
            "/ingester/store/chunk/headChunkBytes",
            "/cache/instantMetricResult/entriesFound",
            "/index/usedBloomFilters",
        ];
        for path in paths {
            assert!(stats.pointer(path).is_some(), "{path}");
        }
    }
}
