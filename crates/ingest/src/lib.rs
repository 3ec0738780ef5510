//! Wire decoders: convert the bytes of a push request to a [`sandur_model::LogBatch`] or a
//! [`sandur_model::SampleBatch`].
//!
//! **What it is.** Logs are read in Loki's push protocol (protobuf in a snappy block, JSON) and as OTLP
//! logs (protobuf, JSON). They are decoded with Loki's semantics: service-name discovery, level
//! detection, structured metadata, limits with Loki's messages, and partial application. Samples are read
//! in remote write 1.0 and 2.0 ([`remote_write`]), OTLP metrics ([`otlp_metrics`]), Prometheus text and
//! OpenMetrics ([`import`]; scrapes read lines with [`ExpositionReader`]) and carbon's protocols
//! ([`carbon`]), with the messages of Prometheus and Mimir. Their series are found in a [`SeriesCache`]
//! that all threads share. OTLP points of delta temporality are decoded as they are; [`DeltaStreams`]
//! adds them up to cumulative ones between decoding and storing. [`RateLimiter`] is the token bucket that
//! the server asks before it passes a batch on.
//!
//! **What it is not.** No HTTP: an [`Error`] says what is wrong and the server chooses the status. No
//! waiting: all code here computes over bytes that are already in memory. No storage: duplicates inside a
//! request are kept, and the engine removes them.
//!
//! **Life of a call.** [`loki_push`] checks the size of the body, decompresses it in bounded memory, and
//! walks the protobuf form once (JSON is first translated to that form). Lines are not copied: an entry's
//! line is a span of the decompressed body, which becomes the batch's arena. Text that the request does
//! not hold (a normalized name, a formatted number) is appended to the arena. Label texts are parsed once
//! per thread and then found in a cache, because agents repeat them. Entries that break a limit are left
//! out and counted in [`Refused`]; the others are in [`Decoded::batch`].
//!
//! ```
//! use bytes::Bytes;
//! use sandur_ingest::{PushHeaders, loki_push};
//! use sandur_model::{Limits, TenantId};
//!
//! let body = r#"{"streams": [{"stream": {"app": "api"}, "values": [
//!     ["1795176000000000000", "level=warn cannot connect"],
//!     ["1000000000", "half a century old"]
//! ]}]}"#;
//! let headers = PushHeaders { content_type: Some("application/json"), content_encoding: None };
//! let (tenant, limits) = (TenantId::default_tenant(), Limits::default());
//! let now_ns = 1_795_176_001_000_000_000;
//! let decoded = loki_push(&tenant, &limits, now_ns, headers, Bytes::from(body)).unwrap();
//! assert_eq!(decoded.lines, 1);
//! let stream = &decoded.batch.streams[0];
//! assert_eq!(stream.labels.get("service_name"), Some("api"), "found by the tenant's list of labels");
//! assert_eq!(stream.entries[0].line.of(&decoded.batch.arena.bytes), b"level=warn cannot connect");
//! assert_eq!(stream.entries[0].level, sandur_model::Level::Warn);
//! assert!(decoded.refused.lines() == 1, "a line beyond the limit of age is refused alone");
//! ```
//!
//! **Invariants.** Memory is bounded and reserved from its owner ([`Memory`]) before it is used: the size
//! that a snappy block declares is checked first, streams are decompressed up to a limit, and the number
//! of streams, entries and metadata pairs of a request is limited. The metadata of an entry is sorted by
//! name, each name occurs once, no value is empty, and names and values are UTF-8. No input makes a
//! decoder panic.

mod batch_builder;
mod decompress;
mod delta;
mod error;
mod labels_cache;
mod level;
mod level_json;
mod level_keys;
mod level_logfmt;
mod limits_check;
mod loki_json;
mod loki_json_fields;
mod loki_json_legacy;
mod loki_proto;
mod memory;
mod metadata_name;
mod metered_writer;
mod otlp;
mod otlp_json;
mod otlp_value;
mod rate;
mod refused;
mod request;
mod samples;
mod service_name;
mod snappy;
mod text;

pub use decompress::plain_bytes_max;
pub use delta::{Added, DELTA_STALE_AFTER, DeltaStreams};
pub use error::Error;
pub use level_keys::LEVEL_KEYS;
pub use limits_check::{
    ENTRIES_MAX, LABELS_TEXT_MAX, METADATA_PAIRS_MAX, REQUEST_LABELS_TEXT_MAX, STREAMS_MAX, VALUE_DEPTH_MAX,
};
pub use loki_proto::{loki_push, loki_push_legacy_within, loki_push_within};
pub use memory::Memory;
pub use otlp::{otlp_logs, otlp_logs_within, otlp_status};
pub use rate::{RateLimited, RateLimiter, SamplesRateLimited};
pub use refused::{RUNS_MAX, Reason, Refused, Run};
pub use request::{Decoded, Push, PushHeaders};
pub use samples::{
    Accepted, CARBON_SAMPLES_MAX, CarbonBatches, CarbonRejected, DecodedSamples, ExpositionError,
    ExpositionFormat, ExpositionLine, ExpositionReader, ExpositionSample, ImportOptions, Items, LineExemplar,
    REMOTE_WRITE_2_TYPE, RejectedMessage, RemoteWriteEncoder, RemoteWriteVersion, SERIES_LABELS_MAX,
    SamplePush, SeriesCache, Written, carbon, carbon_body, import, otlp_metrics, remote_write,
    remote_write_version, series_pairs,
};
