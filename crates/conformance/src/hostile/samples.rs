//! Decoders of samples: remote write of both versions, OTLP metrics, and the text formats.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use sandur_ingest::{
    DecodedSamples, DeltaStreams, Error, ImportOptions, Memory, Push, PushHeaders, SamplePush, SeriesCache,
    import, otlp_metrics, remote_write,
};
use sandur_memory::MemoryBudget;
use sandur_model::{LabelText, Limits, MetricLimits, TenantId};

use super::counted::Counted;
use super::push::NOW_NS;

/// Memory that a decoder may request, in bytes. An input of a few KiB that requests more is a finding.
const MEMORY_MAX: u64 = 512 << 20;

type Decode = fn(SamplePush<'_>, Bytes, Rc<dyn Memory>) -> Result<DecodedSamples, Error>;

/// The first byte chooses the version, and whether the rest is already compressed.
pub fn remote_write_target(input: &[u8]) {
    let Some((choice, body)) = input.split_first() else { return };
    let kind = match choice % 2 {
        0 => "application/x-protobuf",
        _ => "application/x-protobuf;proto=io.prometheus.write.v2.Request",
    };
    let body = match choice / 2 % 2 {
        0 => snap::raw::Encoder::new().compress_vec(body).unwrap_or_default().into(),
        _ => Bytes::copy_from_slice(body),
    };
    run(remote_write, kind, body);
}

/// The first byte chooses protobuf or JSON; the rest is the body.
pub fn otlp_target(input: &[u8]) {
    let Some((choice, body)) = input.split_first() else { return };
    let kind = if choice % 2 == 0 { "application/x-protobuf" } else { "application/json" };
    run(otlp_metrics, kind, Bytes::copy_from_slice(body));
}

/// The first byte chooses the format; the rest is the text.
pub fn exposition_target(input: &[u8]) {
    let Some((choice, body)) = input.split_first() else { return };
    let kind = if choice % 2 == 0 { "text/plain" } else { "application/openmetrics-text" };
    let extra_labels = vec![("job".to_owned(), "j".to_owned())];
    let options = ImportOptions { extra_labels, is_for_gateway: choice & 2 != 0, ..ImportOptions::default() };
    with(|push, body, memory| import(push, &options, body, memory), kind, Bytes::copy_from_slice(body));
}

fn run(decode: Decode, kind: &str, body: Bytes) {
    with(decode, kind, body);
}

fn with(
    decode: impl Fn(SamplePush<'_>, Bytes, Rc<dyn Memory>) -> Result<DecodedSamples, Error>,
    kind: &str,
    body: Bytes,
) {
    let metrics = MetricLimits {
        max_label_names_per_series: 6,
        max_native_histogram_buckets: 64,
        promote_otel_scope_metadata: true,
        promote_all_otel_resource_attributes: true,
        otlp_delta_to_cumulative: true,
        otlp_delta_max_streams: 4,
        ..MetricLimits::default()
    };
    for nhcb in [false, true] {
        let metrics = MetricLimits { otel_convert_histograms_to_nhcb: nhcb, ..metrics.clone() };
        let limits = Limits { max_decompressed_size: 1 << 20, metrics, ..Limits::default() };
        let (tenant, cache) = (TenantId::default_tenant(), SeriesCache::new(64 << 10, 7));
        let headers = PushHeaders { content_type: Some(kind), content_encoding: None };
        let mut first: Option<Vec<u128>> = None;
        for _ in ["series are new", "series are known"] {
            let push = Push { tenant: &tenant, limits: &limits, now_ns: NOW_NS, headers };
            let memory = Rc::new(Counted::up_to(MEMORY_MAX));
            let decoded = decode(SamplePush::new(push, &cache), body.clone(), memory);
            let Ok(decoded) = decoded else { return };
            check(&decoded, &limits);
            add_up(&decoded, &limits);
            let ids: Vec<u128> = decoded.batch.series.iter().map(|series| series.id.0).collect();
            assert_eq!(*first.get_or_insert_with(|| ids.clone()), ids, "the cache changes the result");
        }
    }
}

/// Adds up points of delta temporality three times: with the outcome stored, unknown, and not stored.
fn add_up(decoded: &DecodedSamples, limits: &Limits) {
    let streams = DeltaStreams::new(MemoryBudget::root("deltas", 64 << 10));
    for outcome in 0..3 {
        let mut decoded = decoded.clone();
        let place = streams.queue(&decoded);
        let added = streams.add_up(place, &limits.metrics, Duration::ZERO, &mut decoded);
        let mut added = added.expect("there is memory for a tenant");
        check(&decoded, limits);
        if outcome < 2 {
            added.storing();
        }
        if outcome == 0 {
            added.stored();
        }
        assert!(streams.series() <= limits.metrics.otlp_delta_max_streams);
    }
    streams.forget_stale(Duration::MAX);
    assert_eq!((streams.series(), streams.budget().used()), (0, 0), "all memory is released");
}

/// Checks the invariants of a decoded batch.
fn check(decoded: &DecodedSamples, limits: &Limits) {
    let batch = &decoded.batch;
    assert_eq!(batch.timestamps.len(), batch.values.len());
    assert!(batch.starts.is_empty() || batch.starts.len() == batch.timestamps.len());
    let (mut samples, mut histograms) = (0, 0);
    for series in &batch.series {
        assert_eq!((series.samples.start, series.histograms.start), (samples, histograms));
        (samples, histograms) = (series.samples.end, series.histograms.end);
        assert_eq!(series.id, series.labels.stream_id());
        assert!(series.labels.get("__name__").is_some());
        assert!(series.labels.len() as u64 <= limits.metrics.max_label_names_per_series);
    }
    assert_eq!((samples as usize, histograms as usize), (batch.timestamps.len(), batch.histograms.len()));
    assert_eq!(decoded.written.samples, u64::from(samples));
    for sample in &batch.histograms {
        assert_eq!(sample.histogram.validate(), Ok(()));
    }
    for exemplar in &batch.exemplars {
        assert!((exemplar.series as usize) < batch.series.len());
    }
    super::wal::is_read_as_written(batch.clone());
    if batch.label_text == LabelText::None {
        assert!(batch.arena.bytes.is_empty() && batch.value_offsets.is_empty());
        return;
    }
    for (value, offset) in batch.values.iter().zip(&batch.value_offsets) {
        let stored = batch.arena.bytes.get(*offset as usize..*offset as usize + 8);
        assert_eq!(stored, Some(&value.to_bits().to_le_bytes()[..]), "the arena has another value");
    }
    assert_eq!(batch.value_offsets.len(), batch.values.len());
}
