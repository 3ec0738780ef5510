//! The part of query execution that all languages share: the sources of data, the resources of a query,
//! its statistics, and its result.
//!
//! **What it is.** The interface between storage and query languages. The front end of a log language
//! turns text into [`Selection`]s over a [`LogSource`]; that of a metric language turns text into
//! [`SampleSelection`]s over a [`SampleSource`], which returns series with their samples in batches. A
//! source of logs returns a stream of [`ScanItem`]s, which use little memory until they are decoded on
//! the CPU pool. The operators of this crate merge, limit and aggregate rows in memory that is reserved
//! from the query's budget. [`QueryResult`] is the result.
//!
//! **What it is not.** It names no bucket, file or node, and parses no language.
//!
//! **Life of a query.** The server makes a [`QueryContext`] (tenant, deadline, budget, statistics,
//! queue). The front end splits the time range of the query into pieces ([`cuts`]). It takes the results
//! that the [`ResultsCache`] holds, and evaluates the remaining pieces, each after waiting for its
//! tenant's turn ([`FairQueue`]). For a piece it calls [`LogSource::scan`], pulls items, reserves memory
//! for each, decodes it, filters and aggregates. Items are ordered by their time bounds, so a log query
//! with a limit stops pulling as soon as no later item can contain a row of the result.
//!
//! **Invariants.** A scan delivers each stored row exactly once, except rows that a run marks as
//! suspect, which the reader compares with earlier ones (see [`sandur_model::Suspect`]). Nothing is
//! collected without a reservation. Data that could not be read causes a warning or an error; it is
//! never left out silently.

mod batch_texts;
mod context;
pub mod differences;
mod error;
mod executor;
mod fair_queue;
mod holdings;
mod indexed;
mod joined_series;
mod joined_values;
mod memory_retries;
mod memory_samples;
mod memory_source;
mod part;
mod part_request;
mod pieces;
mod result;
mod results_cache;
mod row_selector;
mod sample_source;
mod seen_rows;
mod series_batch;
mod series_index;
mod series_jobs;
mod series_messages;
mod shared_times;
mod source;
mod sources;
mod staleness;
mod stats;
mod step_cache;
mod step_grid;
mod tenants;
mod text_scan;
mod top_rows;
mod unit;
mod warnings;
mod windows;
pub mod wire;

pub use batch_texts::{BatchTexts, TEXT_BYTES};
pub use context::{QueryContext, WatchedQuery};
pub use error::Error;
pub use executor::{Collect, Merging, Want, Work, execute};
pub use fair_queue::{FairQueue, Permit};
pub use holdings::{Holding, add_versions, cuts};
pub use indexed::Indexed;
pub use joined_values::{JoinedLabels, JoinedTexts, beyond};
pub use memory_retries::{MemoryRetries, Refusable};
pub use memory_samples::MemorySeries;
pub use memory_source::{MemoryRow, MemorySource};
pub use part::{Part, SHARDS, shard_of};
pub use part_request::PartRequest;
pub use pieces::in_order;
pub use result::{LogRow, QueryResult, Sample, Series, SeriesLabels};
pub use results_cache::{CachedUnit, ResultsCache, ResultsFigures, UnitKey};
pub use row_selector::{EveryRow, RowLook, RowSelector, SelectorCompiler, SeriesSelector};
pub use sample_source::{
    Exemplars, Metadata, MetadataSelection, SampleSelection, SampleSource, SeriesExemplars,
};
pub use seen_rows::SeenRows;
pub use series_batch::{BATCH_SERIES, Dictionary, LabelIds, SampleScan, Samples, SeriesBatch, SeriesPart};
pub use series_index::{
    KnownSeries, SeriesIndex, SeriesRequest, TextRequest, WantedTexts, all_series, all_texts, series_bytes,
    texts_of_series,
};
pub use series_jobs::{SeriesJobs, SeriesWork};
pub use shared_times::SharedTimes;
pub use source::{
    Columns, CountsTask, Follow, Followed, LogSource, MinuteCount, Needle, Needles, Order, PageTask, Scan,
    ScanItem, Selection, StreamCounts, StreamVolume, StreamsRequest, Versions,
};
pub use sources::Sources;
pub use staleness::{Staleness, WriterLag};
pub use stats::{QueryStats, StatsSnapshot};
pub use step_cache::{HeldSeries, StepEvaluator, over_steps};
pub use step_grid::StepTimes;
pub use tenants::TenantsSource;
pub use text_scan::{DistinctTexts, KnownBatch, TextBatch, TextScan};
pub use top_rows::{Direction, RankedRow, RowKey, TopRows};
pub use unit::{Unit, UnitSamples, UnitVersions};
pub use warnings::Warnings;
pub use windows::{Slots, Windows};
