//! `/render`: the parameters of a request, and its answer in one of the formats of a table.

mod consolidate;
mod csv;
mod dygraph;
mod json;
mod msgpack;
mod parameters;
mod pickle;
mod picture;
mod protobuf;
mod raw;
mod request;
mod rickshaw;
mod stream;

use sandur_query::QueryContext;

use crate::encoding::json::wrapped;
use crate::error::{Error, Result};
use crate::evaluate::Evaluator;
use crate::rendered::{ANSWER_BYTES_MAX, Rendered};
use crate::series::Series;
use crate::source::Source;

pub use protobuf::{FetchRequest, each_series, read_fetches};
pub use request::{Format, RenderRequest};
pub use stream::RenderStream;

/// All formats.
pub const FORMATS: &[&Format] = &[
    &json::FORMAT,
    &raw::FORMAT,
    &csv::FORMAT,
    &pickle::FORMAT,
    &msgpack::FORMAT,
    &dygraph::FORMAT,
    &rickshaw::FORMAT,
    &picture::SVG,
    &picture::PNG,
    &protobuf::PROTOBUF,
    &protobuf::OLDER,
    &protobuf::NEWER,
];

/// Evaluates the targets of a request and writes the answer.
pub async fn render(
    source: &dyn Source,
    context: &QueryContext,
    request: &RenderRequest,
) -> std::result::Result<Rendered, Error> {
    let evaluator = Evaluator::new(source, context, &request.template);
    let scope = request.scope();
    let mut list = Vec::new();
    for target in &request.targets {
        list.extend(evaluator.series(target, &scope).await?);
    }
    let request = request.clone();
    context.compute(move || Ok(write(&request, list))).await?
}

fn write(request: &RenderRequest, mut list: Vec<Series>) -> Result<Rendered> {
    let format = request.format;
    let guess = list.iter().map(|series| (format.bytes)(request, series)).fold(0, usize::saturating_add);
    if guess > ANSWER_BYTES_MAX {
        return Err(Error::Limit(format!(
            "the answer would have about {guess} bytes, more than {ANSWER_BYTES_MAX}; ask for fewer series, \
             a shorter time or fewer points (maxDataPoints)"
        )));
    }
    let _held = sandur_memory::job::reserve_exactly(guess as u64)?;
    let mut body = Vec::new();
    (format.write)(request, &mut list, &mut body)?;
    let callback = request.jsonp.as_deref().filter(|_| format.is_json);
    Ok(wrapped(format.content_type, body, callback))
}
