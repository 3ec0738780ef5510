//! Templates of labels and annotations: Go's text/template with Prometheus's functions.
//!
//! The language is that of `sandur_logql::template`, which bounds steps, depth and output. A `query` of a
//! template runs between two runs of the template ([`expand`]): the first run notes the query and stops, the
//! next one finds its result. So a template never waits, and the number of queries is bounded.

mod data;
pub mod expand;
mod functions;
mod hosts;
mod humanize;

#[cfg(test)]
mod tests;

use sandur_logql::template::Template;

pub use data::AlertData;
pub use functions::FUNCTIONS;

/// Variables that every template of an alert has.
const VARIABLES: &str = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}\
                         {{$externalURL := .ExternalURL}}{{$value := .Value}}";

/// Parses a template of an alert; errors have Go's texts.
pub fn parse(alert: &str, text: &str) -> Result<Template, String> {
    Template::parse_with(&format!("{VARIABLES}{text}"), &name_of(alert), functions::find)
}

/// The name of the templates of an alert, which errors mention.
fn name_of(alert: &str) -> String {
    format!("__alert_{alert}")
}

/// Whether the text is copied unchanged, because it contains no action.
pub fn is_constant(text: &str) -> bool {
    !text.contains("{{")
}
