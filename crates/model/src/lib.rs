//! The vocabulary of the system as plain data: tenants, labels, streams, matchers, time ranges, batches
//! of log entries and of samples, pages of log rows, and native histograms.
//!
//! **What it is.** The types that crates exchange. A decoder gives the engine a [`Batch`]. A query gives
//! the engine a [`LineAutomaton`] that tests lines, and the engine gives the query [`LogPage`]s. Input
//! is parsed once at the edge and trusted inside: a [`TenantId`] is valid, a [`Labels`] is sorted and
//! has unique names.
//!
//! **What it is not.** No I/O, no async, no wire format, no policy.
//!
//! **Example.**
//!
//! ```
//! use sandur_model::{Labels, MatchOp, Matcher, matches_all};
//!
//! let labels = Labels::parse(r#"{env="prod", app="api"}"#).unwrap();
//! assert_eq!(labels.iter().next(), Some(("app", "api")), "labels are sorted by name");
//! assert_eq!(labels.stream_id(), Labels::from_pairs([("app", "api"), ("env", "prod")]).stream_id());
//!
//! let app = Matcher::new("app", MatchOp::Regex, "a.+").unwrap();
//! let env = Matcher::new("env", MatchOp::NotEqual, "prod").unwrap();
//! assert!(matches_all(&[app.clone()], &labels));
//! assert!(!matches_all(&[app, env], &labels));
//! ```
//!
//! **Invariants.** `Labels` are sorted by name, without duplicates and without empty values. A
//! [`StreamId`] is a pure function of the labels and never changes between versions, because it is
//! stored on disk. The entries of a [`LogBatch`] refer only to its own arena.

mod arena;
mod automaton;
mod batch;
mod batch_builder;
mod batch_parts;
mod bounded_regex;
pub mod decimal;
pub mod escaping;
pub mod exact;
mod exemplar;
mod forms_of_regex;
pub mod go_regex;
pub mod go_replacement;
pub mod go_text;
mod graphite_name;
mod graphite_path;
pub mod histogram;
mod labels;
mod level;
mod limits;
mod line_reducer;
pub mod logfmt;
mod matcher;
mod matcher_form;
mod metric_limits;
mod metric_metadata;
mod page;
mod plain_pattern;
mod retention;
mod rfc3339;
mod roles;
mod rollup;
mod rule_shards;
mod sample_conflicts;
mod samples;
mod series_labels;
mod signal;
mod tenant;
mod text_form;
mod text_forms;
mod text_pattern;
mod time;

pub use arena::{Arena, ArenaCodec, Span};
pub use automaton::{AutomatonError, AutomatonParts, AutomatonState, LineAutomaton};
pub use batch::{Batch, Entry, LogBatch, StreamEntries};
pub use batch_builder::LogBatchBuilder;
pub use batch_parts::{EntryPlace, SamplePlace};
pub use bounded_regex::{BoundedRegex, REGEX_BYTES_MAX, RegexError, RegexOptions, Slots, group_span};
pub use exemplar::Exemplar;
pub use graphite_name::GraphiteName;
pub use graphite_path::{
    GRAPHITE_ARCHIVE, GRAPHITE_MARK, GRAPHITE_NODES_MAX, GRAPHITE_PATH_BYTES_MAX, GRAPHITE_TAGGED,
    GraphitePathError, graphite_level, graphite_level_of, graphite_path, graphite_path_labels,
    graphite_tagged_labels, is_graphite_label, last_write_wins,
};
pub use histogram::FloatHistogram;
pub use labels::{Labels, LabelsError, StreamId};
pub use level::Level;
pub use limits::{BlockedQuery, CompiledPattern, DeletionMode, Limits};
pub use line_reducer::{LinePart, LineReducer, LineTemplate, SLOT, SlotContents, SlotRule};
pub use matcher::{MatchOp, Matcher, MatcherError, matches_all};
pub use matcher_form::MatcherForm;
pub use metric_limits::{MetricLimits, TranslationStrategy};
pub use metric_metadata::{MetricKind, MetricMetadata};
pub use page::{LineColumn, LogPage, MetadataColumn, MetadataValues, StreamRun, Suspect};
pub use retention::{RETENTION_RULES_MAX, RetentionRule, RetentionRuleError, RetentionRules};
pub use rfc3339::Rfc3339;
pub use roles::{Role, RoleError, Roles};
pub use rollup::{Aggregate, GRAPHITE_ROLLUP, Rollup, RollupLabels};
pub use rule_shards::{RULE_SHARDS, RuleShards, STORED_RULE_SHARDS};
pub use sample_conflicts::{SampleConflict, SampleConflicts};
pub use samples::{
    HistogramSample, LabelText, STALE_BITS, SampleBatch, SeriesExemplar, SeriesSamples, is_stale,
};
pub use series_labels::SeriesLabels;
pub use signal::{Dataset, Signal};
pub use tenant::{TenantError, TenantId};
pub use text_form::{CharSet, FormPiece, TextForm};
pub use text_forms::TextForms;
pub use text_pattern::TextPattern;
pub use time::{DAY_NS, HOUR_NS, MILLISECOND_NS, MINUTE_NS, SECOND_NS, TimeRange};
