//! Graphite and its answers as handlers and commands see them.

pub use sandur_graphite::{
    CarbonserverForm, Error, Event, Events, EventsRequest, ExpandRequest, FetchRequest, FindRequest,
    GlobAnswer, Names, Pattern, RenderRequest, Rendered, RulesFile, Source, StorageRules, StoredOptions,
    StoredSeries, Zone, capabilities, complete_tags, complete_values, delete_series, expand, find,
    find_series, functions, index, info, infos, list_tags, metric_list, parse_time, read_fetches, read_globs,
    read_info, render, tag_details, tag_multi_series, tag_series, write_globs,
};
