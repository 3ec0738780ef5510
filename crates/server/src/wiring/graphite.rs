//! Graphite as handlers and commands use it.

pub use sandur_graphite::{
    CarbonserverForm, Error, Event, Events, EventsRequest, ExpandRequest, FetchRequest, FindRequest, Forget,
    GlobAnswer, Listing, ListingForm, ListingRequest, Names, Pattern, RenderRequest, RenderStream, Rendered,
    RulesFile, Source, StorageRules, StoredOptions, StoredSeries, Zone, capabilities, complete_tags,
    complete_values, delete_series, each_series, expand, find, find_series, functions, index, info, infos,
    list_tags, parse_time, read_fetches, read_globs, read_info, render, tag_details, tag_multi_series,
    tag_series, write_globs,
};
