//! The cache's metrics in the Prometheus exposition format, read at each scrape.

use std::fmt::{self, Debug};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::cache::Cache;
use crate::flash::Dropped;
use crate::latency::Latencies;
use crate::predict::Metric;
use crate::stats::{CacheStats, FlashTierStats};

impl Cache {
    /// Adds the cache's metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Figures(self.clone())));
    }
}

#[derive(Debug)]
struct Figures(Cache);

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let stats = self.0.stats();
        memory(&mut encoder, &stats)?;
        lookups(&mut encoder, &stats)?;
        leaving(&mut encoder, &stats)?;
        churn(&mut encoder, &self.0)?;
        latencies(&mut encoder, &stats)?;
        prediction(&mut encoder, &self.0)?;
        stats.flash.iter().try_for_each(|flash| device(&mut encoder, flash))
    }
}

/// Writes one metric, whose rows have one label each.
fn rows<V: Copy>(
    encoder: &mut DescriptorEncoder,
    (name, help, label): (&str, &str, &str),
    kind: MetricType,
    rows: &[(&str, V)],
    write: impl Fn(V, MetricEncoder) -> fmt::Result,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
    rows.iter().try_for_each(|(value, number)| write(*number, metric.encode_family(&[(label, *value)])?))
}

fn counters(encoder: &mut DescriptorEncoder, names: (&str, &str, &str), all: &[(&str, u64)]) -> fmt::Result {
    rows(encoder, names, MetricType::Counter, all, |n, metric| ConstCounter::new(n).encode(metric))
}

fn gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: f64,
    unit: Option<&Unit>,
) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

fn memory(encoder: &mut DescriptorEncoder, stats: &CacheStats) -> fmt::Result {
    let bytes = Some(&Unit::Bytes);
    gauge(
        encoder,
        "sandur_cache_memory_used",
        "Memory of the cache in use",
        stats.memory_used as f64,
        bytes,
    )?;
    let text = "Most memory that the cache may use";
    gauge(encoder, "sandur_cache_memory_limit", text, stats.memory_limit as f64, bytes)?;
    gauge(encoder, "sandur_cache_items", "Items in memory", stats.items as f64, None)
}

fn lookups(encoder: &mut DescriptorEncoder, stats: &CacheStats) -> fmt::Result {
    let flash = stats.flash.as_ref();
    let found = [
        ("ram", stats.ram.hits),
        ("flash", flash.map_or(0, |flash| flash.hits)),
        ("miss", stats.ram.misses() + flash.map_or(0, |flash| flash.misses)),
    ];
    counters(encoder, ("sandur_cache_lookups", "Lookups by the tier that answered", "tier"), &found)
}

fn leaving(encoder: &mut DescriptorEncoder, stats: &CacheStats) -> fmt::Result {
    let ram = &stats.ram;
    let why = [
        ("evicted", ram.evicted),
        ("demoted", ram.demoted),
        ("on_flash_already", ram.dropped_clean),
        ("expired", ram.expired),
        ("flushed", ram.flushed),
        ("replaced", ram.replaced),
        ("removed", ram.removed),
        ("refused", ram.refused),
    ];
    counters(
        encoder,
        ("sandur_cache_ram_left", "Items that left memory or were refused, by reason", "why"),
        &why,
    )
}

fn churn(encoder: &mut DescriptorEncoder, cache: &Cache) -> fmt::Result {
    let churn = cache.churn();
    let mut objects = encoder.encode_descriptor(
        "sandur_cache_evicted",
        "Items evicted, and those evicted unread",
        None,
        MetricType::Counter,
    )?;
    for row in churn.rows() {
        for (fetched, amount) in [("yes", row.fetched), ("no", row.unfetched)] {
            let labels = [
                ("class", row.class.name()),
                ("source", row.source.name()),
                ("age", row.age.name()),
                ("fetched", fetched),
            ];
            ConstCounter::new(amount.objects).encode(objects.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn prediction(encoder: &mut DescriptorEncoder, cache: &Cache) -> fmt::Result {
    let Some(report) = cache.prediction() else { return Ok(()) };
    let metrics: Vec<Metric> = report.metrics().collect();
    for same in metrics.chunk_by(|a, b| a.name == b.name) {
        let name = format!("sandur_{}", same[0].name);
        let mut family = encoder.encode_descriptor(&name, same[0].help, None, MetricType::Gauge)?;
        for metric in same {
            let gauge = ConstGauge::new(metric.value);
            match metric.scale {
                Some(scale) => gauge.encode(family.encode_family(&[("scale", scale.to_string())])?)?,
                None => gauge.encode(family.encode_family::<[(&str, &str); 0]>(&[])?)?,
            }
        }
    }
    Ok(())
}

fn latencies(encoder: &mut DescriptorEncoder, stats: &CacheStats) -> fmt::Result {
    let tiers =
        [("ram", Some(&stats.ram_latency)), ("flash", stats.flash.as_ref().map(|flash| &flash.latency))];
    let (name, text) = (
        "sandur_cache_lookup",
        "Duration of lookups by the tier that answered; lookups in memory are sampled",
    );
    let mut metric = encoder.encode_descriptor(name, text, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (tier, latencies) in tiers {
        let Some(latencies) = latencies else { continue };
        histogram(latencies, metric.encode_family(&[("tier", tier)])?)?;
    }
    Ok(())
}

fn histogram(latencies: &Latencies, mut metric: MetricEncoder) -> fmt::Result {
    let mut before = 0;
    let mut buckets = Vec::new();
    for (end, sum) in latencies.cumulative() {
        // Bounds from 0.25 µs to 8 s have buckets; latencies outside are in the first or last one.
        if (2.5e-7..8.0).contains(&end) {
            buckets.push((end, sum - before));
            before = sum;
        }
    }
    buckets.push((f64::INFINITY, latencies.count - before));
    let sum = latencies.sum_ns as f64 / 1e9;
    metric.encode_histogram::<prometheus_client::encoding::NoLabelSet>(sum, latencies.count, &buckets, None)
}

fn device(encoder: &mut DescriptorEncoder, flash: &FlashTierStats) -> fmt::Result {
    let device = &flash.device;
    let bytes = Some(&Unit::Bytes);
    let capacity = device.capacity_bytes as f64;
    gauge(encoder, "sandur_cache_flash_capacity", "Bytes of all segments on flash", capacity, bytes)?;
    gauge(encoder, "sandur_cache_flash_records", "Records on flash", device.records as f64, None)?;
    let index = device.index_bytes as f64;
    gauge(encoder, "sandur_cache_flash_index", "Memory of the index of flash", index, bytes)?;
    let text = "State of the device: 0 ok, 1 slow, 2 no writes, 3 failed";
    gauge(encoder, "sandur_cache_flash_health", text, f64::from(device.health as u8), None)?;
    let counts = &device.counts;
    let moved =
        [("admitted", counts.bytes_admitted), ("written", counts.bytes_written), ("read", counts.bytes_read)];
    counters(encoder, ("sandur_cache_flash_bytes", "Bytes to and from flash", "what"), &moved)?;
    let reads = [
        ("hit", counts.reads_hit),
        ("false_match", counts.reads_false_match),
        ("corrupt", counts.reads_corrupt),
        ("failed", counts.reads_failed),
        ("late", counts.reads_late),
        ("overloaded", counts.reads_overloaded),
        ("stale", counts.reads_stale),
        ("expired", counts.reads_expired),
    ];
    counters(encoder, ("sandur_cache_flash_reads", "Reads of flash by result", "result"), &reads)?;
    let dropped: Vec<(&str, u64)> =
        Dropped::ALL.iter().zip(counts.dropped).map(|(reason, count)| (reason.name(), count)).collect();
    counters(
        encoder,
        ("sandur_cache_flash_dropped", "Records dropped from flash or not written to it, by reason", "why"),
        &dropped,
    )?;
    let refused: Vec<(&str, u64)> =
        flash.refused.iter().map(|(reason, count)| (reason.name(), *count)).collect();
    counters(encoder, ("sandur_cache_flash_refused", "Values not admitted to flash", "why"), &refused)
}
