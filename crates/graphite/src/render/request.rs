//! A request to `/render`, and the format in which it is answered.

use crate::error::Result;
use crate::picture::PictureOptions;
use crate::scope::Scope;
use crate::series::Series;
use crate::zone::{Moment, Zone};

/// The parameters of a request.
#[derive(Clone, Debug)]
pub struct RenderRequest {
    /// The targets, in order.
    pub targets: Vec<String>,
    /// Values after this time, exclusive.
    pub from: Moment,
    /// Values up to this time, inclusive.
    pub until: Moment,
    /// The current time, in seconds since 1970.
    pub now: i64,
    /// The zone in which times are parsed and shown.
    pub zone: Zone,
    /// The output format.
    pub format: &'static Format,
    /// The most points of a series, if there is a limit.
    pub max_data_points: Option<u64>,
    /// Whether points without a value are omitted.
    pub no_null_points: bool,
    /// The function that the answer is wrapped in (JSONP).
    pub jsonp: Option<String>,
    /// Whether JSON is indented.
    pub pretty: bool,
    /// The fraction of values that a consolidated point requires.
    pub x_files_factor: f64,
    /// The values for placeholders of templates.
    pub template: Vec<(String, String)>,
    /// The expression by which carbonapi identifies the series.
    pub path_expression: Option<String>,
    /// The options of an image, if one is requested.
    pub(crate) picture: Option<PictureOptions>,
}

impl RenderRequest {
    /// The first and the last time, in seconds since 1970.
    pub(crate) fn times(&self) -> (i64, i64) {
        (self.from.epoch, self.until.epoch)
    }

    /// The scope in which the targets are evaluated.
    pub fn scope(&self) -> Scope {
        Scope::new(self.from, self.until, self.now, self.zone.clone(), self.x_files_factor)
    }
}

/// An output format.
#[derive(Debug)]
pub struct Format {
    /// The value of `format`.
    pub name: &'static str,
    /// The content type.
    pub content_type: &'static str,
    /// Whether `jsonp` may wrap it.
    pub(crate) is_json: bool,
    /// The approximate maximum of bytes for a series.
    pub(crate) bytes: fn(&RenderRequest, &Series) -> usize,
    pub(crate) write: fn(&RenderRequest, &mut [Series], &mut Vec<u8>) -> Result<()>,
}

impl Format {
    pub(super) fn is_picture(&self) -> bool {
        self.content_type.starts_with("image/")
    }
}

/// The bytes of a series with its name, and `each` bytes per value.
pub(super) fn bytes_of(series: &Series, each: usize) -> usize {
    series.values.len().saturating_mul(each).saturating_add(256 + series.name.len())
}

/// The bytes for most formats: forty per value.
pub(super) fn with_name(_: &RenderRequest, series: &Series) -> usize {
    bytes_of(series, 40)
}

/// The bytes for formats that include the expression of each series.
pub(super) fn with_expression(request: &RenderRequest, series: &Series) -> usize {
    let asked = request.path_expression.as_deref().map_or(0, str::len);
    with_name(request, series).saturating_add(series.path_expression.len().max(asked))
}
