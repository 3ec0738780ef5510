//! Samples: the bytes of a request become a [`sandur_model::SampleBatch`].
//!
//! A decoder walks its protocol and hands series and samples to the [`builder`], which knows the limits. What
//! the bytes of a series' labels mean is found in the [`series_cache`], which all threads share: most
//! requests bring series that were there a few seconds ago, so that labels are read once and not once per
//! sample.

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
