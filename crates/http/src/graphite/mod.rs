//! Graphite's API over the stored samples: that of graphite-web, and that of carbonserver, by which
//! graphite-web and carbonapi read from this server. One file per endpoint, or
//! for several that share their code.
//!
//! Every path is also served below `/graphite`, and with a trailing slash. Failures are plain text.

/// The paths of an endpoint.
macro_rules! paths {
    ($path:literal) => {
        &[$path, concat!($path, "/"), concat!("/graphite", $path), concat!("/graphite", $path, "/")]
    };
}

pub mod answer;
pub mod capabilities;
pub mod carbon_v2;
pub mod events;
pub mod find;
pub mod functions;
pub mod info;
pub mod jsonp;
pub mod parameters;
pub mod paths;
pub mod render;
pub mod tag_delete_series;
pub mod tag_details;
pub mod tags;
pub mod version;
