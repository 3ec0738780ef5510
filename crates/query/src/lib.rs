//! The language-neutral query core: what a source of data is, what a query may use, what it
//! counts, and what it answers.
//!
//! **What it is.** The seam between storage and languages. A language front end of logs turns text into
//! [`Selection`]s over a [`LogSource`], one of metrics into [`SampleSelection`]s over a [`SampleSource`],
//! which gives series with their samples batch by batch. A source of logs answers with a stream of
//! [`ScanItem`]s, which are cheap to hold and are decoded on the CPU pool; operators of this crate merge,
//! limit and aggregate rows in memory that is reserved from the query's budget; [`QueryResult`] is the
//! answer.
//!
//! **What it is not.** It names no bucket, file or node, and parses no language.
//!
//! **Life of a query.** The server makes a [`QueryContext`] (tenant, deadline, budget, statistics, queue).
//! The front end cuts the query's time into pieces ([`cuts`]), takes what the [`ResultsCache`] holds
//! already, and waits for its tenant's turn ([`FairQueue`]) with each of the others. For a piece it calls
//! [`LogSource::scan`], pulls items, decodes each within a reservation, filters and aggregates. For a log
//! query with a limit it stops pulling when no later item can hold a row that belongs to the answer: items
//! come ordered by their time bounds.
//!
//! **Invariants.** A scan delivers each stored row exactly once, except rows that a run marks as
//! suspect, which the reader compares with the ones it has seen (see [`sandur_model::Suspect`]).
//! Nothing is collected without a reservation. Whatever could not be read is a warning or an error,
//! never silence.

mod batch_texts;
mod context;
mod error;
mod executor;
mod fair_queue;
mod holdings;
mod indexed;
mod joined_series;
mod joined_values;
mod known_series;
mod memory_samples;
mod memory_source;
mod pieces;
mod result;
mod results_cache;
mod room;
mod row_selector;
mod sample_source;
mod seen_rows;
mod series_jobs;
mod series_part;
mod shared_times;
mod source;
mod sources;
mod staleness;
mod stats;
mod step_cache;
mod tenants;
mod text_scan;
mod top_rows;
mod unit;
mod windows;

pub use batch_texts::{BatchTexts, TEXT_BYTES};
pub use context::{QueryContext, WatchedQuery};
pub use error::Error;
pub use executor::{Collect, Merging, Want, Work, execute};
pub use fair_queue::{FairQueue, Permit};
pub use holdings::{Holding, add_versions, cuts};
pub use indexed::Indexed;
pub use joined_values::{JoinedLabels, JoinedTexts, beyond};
pub use memory_samples::MemorySeries;
pub use memory_source::{MemoryRow, MemorySource};
pub use pieces::in_order;
pub use result::{LogRow, QueryResult, Sample, Series, SeriesLabels};
pub use results_cache::{CachedUnit, ResultsCache, ResultsFigures, UnitKey};
pub use room::{Refusable, Room};
pub use row_selector::{EveryRow, RowLook, RowSelector, SelectorCompiler, SeriesSelector};
pub use sample_source::{
    BATCH_SERIES, Dictionary, Exemplars, LabelIds, Metadata, MetadataSelection, SampleScan, SampleSelection,
    SampleSource, Samples, SeriesBatch, SeriesExemplars,
};
pub use seen_rows::SeenRows;
pub use series_jobs::{SeriesJobs, SeriesWork};
pub use series_part::SeriesPart;
pub use shared_times::SharedTimes;
pub use source::{
    Columns, CountsTask, Follow, Followed, LogSource, MinuteCount, Needle, Needles, Order, PageTask, Scan,
    ScanItem, Selection, SeriesIndex, StreamCounts, StreamVolume, Versions, any_or_all,
};
pub use sources::Sources;
pub use staleness::Staleness;
pub use stats::{QueryStats, StatsSnapshot};
pub use step_cache::{HeldSeries, StepEvaluator, StepTimes, over_steps};
pub use tenants::TenantsSource;
pub use text_scan::{KnownTexts, TextBatch, TextScan};
pub use top_rows::{Direction, RankedRow, RowKey, TopRows};
pub use unit::{Unit, UnitSamples};
pub use windows::{Slots, Windows};
