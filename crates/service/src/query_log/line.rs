//! Formats the line: Loki's keys in Loki's order, then keys of our own.

use sandur_model::logfmt::Line;

use super::asked::{Asked, What};
use super::outcome::Outcome;
use crate::caller::Caller;
use crate::cost::Cost;

/// Capacity that suffices for a usual line.
const BYTES: usize = 3_072;

/// Facts of the server that the line contains.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// The current time, nanoseconds since the epoch.
    pub(super) now_ns: i64,
    /// Whether the query took at least `query.slow_threshold`.
    pub(super) slow: bool,
    /// Lines of its kind that were left out of the log since the last written one.
    pub(super) left_out: u64,
}

/// Formats the line.
pub(super) fn write(asked: &Asked, caller: &Caller, cost: &Cost, outcome: &Outcome, seen: Seen) -> String {
    let mut line = Line::with_capacity(BYTES);
    line.plain("caller", "metrics.go");
    line.plain("component", if asked.is_query() { "querier" } else { "frontend" });
    line.text("org_id", caller.tenant.as_str());
    if let Some(trace) = &caller.trace {
        line.text("traceID", trace);
    }
    line.plain("latency", if seen.slow { "slow" } else { "fast" });
    request(&mut line, asked, caller, seen.now_ns);
    line.time("duration", ns(cost.execution));
    line.plain("status", outcome.status);
    if asked.is_query() {
        line.plain("limit", asked.limit);
        line.plain("returned_lines", outcome.returned_lines);
    }
    amounts(&mut line, cost);
    phases(&mut line, cost);
    caches(&mut line, asked, cost);
    heads(&mut line, cost);
    index(&mut line, cost);
    for (key, value) in &caller.tags {
        line.text(key, value);
    }
    line.plain("disable_pipeline_wrappers", false);
    if !outcome.failure.is_empty() {
        line.text("error", &outcome.failure);
    }
    if outcome.result_bytes > 0 {
        line.bytes("approx_result_size", outcome.result_bytes);
    }
    beyond(&mut line, cost);
    line.plain("signal", asked.signal);
    if seen.left_out > 0 {
        line.plain("left_out", seen.left_out);
    }
    line.into_string()
}

fn ns(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn request(line: &mut Line, asked: &Asked, caller: &Caller, now_ns: i64) {
    let (start, end) = (asked.times.start_ns, asked.times.end_ns);
    line.text("user_agent", &caller.user_agent);
    if asked.what == What::Labels {
        line.text("label", &asked.label);
    }
    line.text(if asked.what == What::Series { "match" } else { "query" }, &asked.text);
    line.plain("query_hash", asked.hash);
    line.plain("query_type", asked.query_type);
    if matches!(asked.what, What::Query | What::Volume) {
        line.plain("range_type", asked.range_type);
    }
    line.time("length", end.saturating_sub(start));
    line.time("start_delta", now_ns.saturating_sub(start));
    line.time("end_delta", now_ns.saturating_sub(end));
    if matches!(asked.what, What::Query | What::Volume) {
        line.time("step", asked.step_ns);
    }
}

fn amounts(line: &mut Line, cost: &Cost) {
    let c = &cost.counters;
    line.bytes("throughput", cost.per_second(cost.bytes()));
    line.bytes("total_bytes", cost.bytes());
    line.bytes("total_bytes_structured_metadata", cost.metadata_bytes());
    line.plain("lines_per_second", cost.per_second(cost.lines()));
    line.plain("total_lines", cost.lines());
    line.plain("post_filter_lines", c.post_filter_lines);
    line.plain("total_entries", c.entries_returned);
}

fn phases(line: &mut Line, cost: &Cost) {
    let c = &cost.counters;
    line.time("store_chunks_download_time", cost.download_ns() as i64);
    line.time("queue_time", c.queue_ns as i64);
    line.time("querier_exec_time", c.execution_ns as i64);
    line.plain("splits", c.splits);
    line.plain("shards", c.shards);
    line.plain("query_referenced_structured_metadata", cost.metadata_bytes() > 0);
    line.plain("pipeline_wrapper_filtered_lines", 0);
    line.time("chunk_refs_fetch_time", c.index_ns as i64);
}

fn caches(line: &mut Line, asked: &Asked, cost: &Cost) {
    let c = &cost.counters;
    line.plain("cache_chunk_req", cost.pages_wanted());
    line.plain("cache_chunk_hit", cost.pages_found());
    line.plain("cache_chunk_bytes_stored", 0);
    line.plain("cache_chunk_bytes_fetched", c.page_cache_bytes + c.page_flash_bytes);
    line.time("cache_chunk_download_time", (c.page_cache_ns + c.page_flash_ns) as i64);
    let index_found = c.index_cache_hits + c.index_flash_hits;
    line.plain("cache_index_req", index_found + c.index_cache_misses);
    line.plain("cache_index_hit", index_found);
    line.time("cache_index_download_time", 0);
    let own = match asked.what {
        What::Query | What::Other => "cache_result",
        What::Labels => "cache_label_results",
        What::Series => "cache_series_results",
        What::Stats => "cache_stats_results",
        What::Volume => "cache_volume_results",
    };
    let mut names = vec![own];
    if asked.is_query() {
        names.extend(["cache_stats_results", "cache_volume_results"]);
    }
    for name in names {
        let ours = name == own;
        let of = |amount: u64| if ours { amount } else { 0 };
        line.plain(&format!("{name}_req"), of(c.result_cache_requests));
        line.plain(&format!("{name}_hit"), of(c.result_cache_hits));
        line.time(&format!("{name}_download_time"), of(c.result_cache_ns) as i64);
        if ours {
            line.plain(&format!("{name}_stored"), c.result_cache_stored);
            line.time(&format!("{name}_query_length_served"), c.result_cache_length_ns as i64);
        }
    }
}

fn heads(line: &mut Line, cost: &Cost) {
    let c = &cost.counters;
    line.plain("ingester_chunk_refs", 0);
    line.plain("ingester_chunk_downloaded", 0);
    line.plain("ingester_chunk_matches", c.head_pages);
    line.plain("ingester_requests", c.heads_asked);
    line.bytes("ingester_chunk_head_bytes", c.head_bytes + c.head_metadata_bytes);
    line.bytes("ingester_chunk_compressed_bytes", 0);
    line.bytes("ingester_chunk_decompressed_bytes", 0);
    line.plain("ingester_post_filter_lines", 0);
    line.time("congestion_control_latency", 0);
}

fn index(line: &mut Line, cost: &Cost) {
    let c = &cost.counters;
    let ratio = match c.pages_total {
        0 => 0.0,
        total => c.pages_filtered as f64 / total as f64,
    };
    line.plain("index_total_chunks", c.pages_total);
    line.plain("index_post_bloom_filter_chunks", c.pages_total.saturating_sub(c.pages_filtered));
    line.plain("index_bloom_filter_ratio", format_args!("{ratio:.2}"));
    line.plain("index_used_bloom_filters", c.filters_asked > 0);
    line.time("index_shard_resolver_duration", 0);
    line.time("index_bloom_filter_time", c.filter_ns as i64);
    line.time("index_chunk_refs_lookup_time", c.index_ns as i64);
    if c.streams > 0 {
        line.plain("index_total_streams", c.streams);
    }
}

/// Keys that Loki's line does not have: where bytes were read from, and lines counted from footers.
fn beyond(line: &mut Line, cost: &Cost) {
    let c = &cost.counters;
    line.plain("lines_counted", c.lines_counted);
    line.plain("blocks", c.blocks_opened);
    line.plain("pages_from_ram", c.page_cache_hits);
    line.plain("pages_from_flash", c.page_flash_hits);
    line.bytes("ram_bytes", c.page_cache_bytes);
    line.bytes("flash_bytes", c.page_flash_bytes);
    line.time("store_ram_time", c.page_cache_ns as i64);
    line.time("store_flash_time", c.page_flash_ns as i64);
    line.time("store_bucket_time", c.store_ns as i64);
    line.plain("store_requests", c.store_requests);
    line.bytes("store_bytes", c.store_bytes);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_query::StatsSnapshot;

    use super::super::asked::Times;
    use super::*;
    use sandur_logql::{Kind as QueryKind, Request as QueryText};
    use sandur_model::TenantId;

    fn caller() -> Caller {
        let tags = vec![("source".to_owned(), "grafana".to_owned())];
        let trace = Some("4bf92f35".to_owned());
        let internal = Caller::internal(TenantId::new("fake").unwrap(), "test");
        Caller { tags, user_agent: "Grafana/12.1".to_owned(), trace, ..internal }
    }

    const NOW: i64 = 7_200_000_000_000;

    #[test]
    fn a_query_has_lokis_keys_in_lokis_formats() {
        let request = QueryText {
            query: r#"{app="api"} |= "x""#.to_owned(),
            kind: QueryKind::Range { start_ns: 0, end_ns: 3_600_000_000_000, step_ns: 15_000_000_000 },
            limit: 100,
            direction: sandur_query::Direction::Backward,
            interval_ns: 0,
        };
        let counters = StatsSnapshot {
            decompressed_bytes: 1_500_000,
            lines_processed: 9_000,
            queue_ns: 2_000_000,
            store_ns: 30_000_000,
            index_ns: 1_250_000,
            pages_total: 8,
            pages_filtered: 6,
            filters_asked: 1,
            ..StatsSnapshot::default()
        };
        let cost = Cost { counters, execution: Duration::from_millis(500), ..Cost::default() };
        let outcome = Outcome { returned_lines: 42, ..Outcome::answered(5_000) };
        let seen = Seen { now_ns: NOW, slow: false, left_out: 0 };
        let asked = Asked::query(&request, "filter", &[]);
        let line = write(&asked, &caller(), &cost, &outcome, seen);
        let hash = asked.hash;
        let mut start = concat!(
            "caller=metrics.go component=querier org_id=fake traceID=4bf92f35 latency=fast ",
            r#"user_agent=Grafana/12.1 query="{app=\"api\"} |= \"x\"" "#,
        )
        .to_owned();
        start.push_str(&format!("query_hash={hash} "));
        start.push_str(concat!(
            "query_type=filter range_type=range length=1h0m0s start_delta=2h0m0s end_delta=1h0m0s step=15s ",
            "duration=500ms status=200 limit=100 returned_lines=42 throughput=3.0MB total_bytes=1.5MB ",
            "total_bytes_structured_metadata=0B lines_per_second=18000 total_lines=9000 ",
            "post_filter_lines=0 total_entries=0 store_chunks_download_time=30ms queue_time=2ms ",
            "querier_exec_time=0s splits=0 shards=0 "
        ));
        assert_eq!(line.get(..start.len()), Some(start.as_str()), "{line}");
        for pair in [
            "chunk_refs_fetch_time=1.25ms",
            "index_bloom_filter_ratio=0.75",
            "index_post_bloom_filter_chunks=2",
            "index_used_bloom_filters=true",
            "source=grafana",
            "approx_result_size=5.0kB",
            "store_bucket_time=30ms",
        ] {
            assert!(line.split(' ').any(|p| p == pair), "{pair} in {line}");
        }
    }

    #[test]
    fn other_requests_log_their_parameters() {
        let times = Times { start_ns: NOW - 60_000_000_000, end_ns: NOW };
        let seen = Seen { now_ns: NOW, slow: true, left_out: 7 };
        let gone = Outcome::failed(499, "the client\ndisconnected");
        let line = |asked: Asked| write(&asked, &caller(), &Cost::default(), &gone, seen);
        let labels = line(Asked::labels("app", "", times));
        assert!(labels.contains("component=frontend"), "{labels}");
        assert!(labels.contains("latency=slow") && labels.contains(" label=app query= "), "{labels}");
        assert!(labels.contains(" status=499 ") && labels.contains("cache_label_results_req=0"), "{labels}");
        assert!(labels.contains(r#" error="the client\ndisconnected" "#), "{labels}");
        assert!(labels.ends_with(" signal=logs left_out=7"), "{labels}");
        let series = line(Asked::series(["{a=\"b\"}", "{c=\"d\"}"].into_iter(), times));
        assert!(series.contains(r#"match="{a=\"b\"}:{c=\"d\"}""#), "{series}");
        let volume = line(Asked::volume("{}", times, 0, 10));
        assert!(volume.contains("query_type=volume range_type=instant length=1m0s"), "{volume}");
    }
}
