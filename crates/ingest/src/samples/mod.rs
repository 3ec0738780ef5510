//! Decodes the bytes of a request to a [`sandur_model::SampleBatch`].
//!
//! A decoder walks its protocol and passes series and samples to the [`builder`], which applies the
//! limits. The bytes of a series' labels are looked up in the [`series_cache`], which all threads share:
//! most requests repeat series from a few seconds ago, so labels are parsed once and not once per sample.

pub(crate) mod builder;
mod carbon;
mod decoded;
mod exposition;
mod items;
pub(crate) mod labels_check;
mod name_cache;
mod native_histogram;
mod otlp;
mod remote_write;
mod remote_write_1;
mod remote_write_2;
mod remote_write_encoder;
mod seen;
mod series_cache;
mod series_key;
mod within_limits;

pub use builder::{SERIES_LABELS_MAX, SamplePush};
pub use carbon::{CARBON_SAMPLES_MAX, CarbonBatches, CarbonRejected, RejectedMessage, carbon, carbon_body};
pub(crate) use decoded::DeltaSeries;
pub use decoded::{Accepted, DecodedSamples, Written};
pub use exposition::{
    ExpositionError, ExpositionFormat, ExpositionLine, ExpositionReader, ExpositionSample, ImportOptions,
    LineExemplar, import, series_pairs,
};
pub use items::Items;
pub use otlp::otlp_metrics;
pub use remote_write::{RemoteWriteVersion, remote_write, remote_write_version};
pub use remote_write_encoder::{REMOTE_WRITE_2_TYPE, RemoteWriteEncoder};
pub use series_cache::SeriesCache;
