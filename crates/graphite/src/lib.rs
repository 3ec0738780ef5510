//! Graphite's language: targets over series of values at equal steps.
//!
//! **What it is.** The parser of targets, times in the forms of `from` and `until`, patterns of paths, tag
//! expressions, all functions of graphite-web and those of carbonapi alone, consolidation, and the output
//! formats of `/render`, including SVG. Where graphite-web has an answer, ours equals it in names, times
//! and the last digit of values.
//!
//! **What it is not.** It has no access to blocks or HTTP. Series come from a [`Source`]; the one over
//! stored samples is [`StoredSeries`], with the steps and retentions of [`StorageRules`].
//!
//! **Life of a request.** [`RenderRequest`] parses parameters, and [`render`] evaluates its targets in
//! order. A target's text becomes a tree ([`parse`]). Paths and `seriesByTag` are fetched from the source,
//! and functions are called with their evaluated arguments (`evaluate`). Functions over values run as jobs
//! of the query; those over other times evaluate their first argument again. The resulting series are
//! consolidated to at most `maxDataPoints` and written in the requested format (`render/`). `find/` answers
//! requests for paths, `tag_api/` requests for tags.
//!
//! **How to add.** A function is an entry in the `TABLE` of its family, a file in `functions/`, and its code
//! in the same file. Evaluation, `/functions` and the reference page are made from the tables.
//!
//! **Invariants.** A missing value and NaN differ until they are written. Sums run from left to right. The
//! height of a tree and the calls of a request are bounded. Values are reserved before they are created,
//! and loops over values report their work.

mod aggregation;
mod attime;
mod call;
mod carbonserver;
mod column;
mod combine;
mod direct_call;
mod encoding;
mod error;
mod evaluate;
mod event;
mod find;
mod function;
mod functions;
mod glob;
mod grammar;
mod group;
mod last_values;
mod listing;
#[cfg(test)]
mod memory_tests;
mod number;
mod parameter;
pub mod partial;
mod pattern;
mod picture;
mod reference;
mod render;
mod rendered;
mod schemas;
mod scope;
mod series;
mod source;
mod stored;
mod tag_api;
mod tags;
mod zone;

pub use attime::{Unit, parse_offset, parse_time};
pub use call::Call;
pub use carbonserver::{CarbonserverForm, capabilities, info, infos, read_info};
pub use column::Column;
pub use direct_call::call_with_values;
pub use error::Error;
pub use evaluate::{CALLS_MAX, Evaluator, SERIES_MAX};
pub use event::{EVENT_BYTES_MAX, Event, Events, EventsRequest};
pub use find::{
    ExpandRequest, FIND_FORMATS, FindFormat, FindRequest, GlobAnswer, expand, find, index, read_globs,
    write_globs,
};
pub use function::{Computation, Evaluate, Function, Target};
pub use functions::FUNCTIONS;
pub use glob::{Alternatives, NodePattern, Pattern};
pub use grammar::{Expr, parse};
pub use group::{Group, Origin};
pub use last_values::{LastValue, check_target, last_values};
pub use listing::{Listing, ListingForm, ListingRequest};
pub use number::Number;
pub use parameter::{Argument, Kind, Parameter, Preset};
pub use reference::{functions_json, reference};
pub use render::{
    FORMATS, FetchRequest, Format, RenderRequest, RenderStream, each_series, read_fetches, render,
};
pub use rendered::Rendered;
pub use schemas::{Archive, Method, Reading, Rule, RulesError, RulesFile, StorageRules};
pub use scope::Scope;
pub use series::{Consolidation, Drawing, Points, Series};
pub use source::{Fetched, Found, Selector, Source, Window};
pub use stored::{Forget, StoredOptions, StoredSeries};
pub use tag_api::{
    LIMIT_MAX, NameFilter, Names, Wanted, complete_tags, complete_values, delete_series, find_series,
    functions, list_tags, tag_details, tag_multi_series, tag_series,
};
pub use tags::{Operator, TagExpression, Tags, canonical_name, parse_name};
pub use zone::{Moment, Zone};
