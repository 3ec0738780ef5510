//! Graphite's API over the stored samples: that of graphite-web, and that of carbonserver, by which
//! graphite-web and carbonapi read from this server. One file per endpoint that has code of its own.
//!
//! Every path is also served below `/graphite`, and with a trailing slash. Failures are plain text.

pub mod answer;
pub mod capabilities;
pub mod carbon_v2;
pub mod event_data;
pub mod events;
pub mod expand;
pub mod find;
pub mod function;
pub mod functions;
pub mod index;
pub mod info;
pub mod jsonp;
pub mod metric_details;
pub mod metric_list;
pub mod metric_list_query;
pub mod parameters;
pub mod render;
pub mod tag_complete_names;
pub mod tag_complete_values;
pub mod tag_delete_series;
pub mod tag_details;
pub mod tag_find_series;
pub mod tag_list;
pub mod tag_multi_series;
pub mod tag_series;
pub mod version;
