//! `/tags`: the names of tags.

use sandur_query::QueryContext;

use super::{LIMIT_MAX, Names, Parameters, Wanted};
use crate::encoding::json::quoted;
use crate::error::Error;
use crate::rendered::Rendered;

/// Lists tags.
pub async fn list_tags(
    names: &dyn Names,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let filter = parameters.filter(context).await?;
    let wanted = Wanted { expressions: &[], filter: &filter, limit: parameters.limit(LIMIT_MAX)? };
    let layout = parameters.layout();
    let part = |tag: &String| layout.join(('{', '}'), 1, &[format!("\"tag\": {}", quoted(tag))]);
    let parts: Vec<String> = names.tags(context, wanted).await?.iter().map(part).collect();
    Ok(parameters.answer(layout.join(('[', ']'), 0, &parts)))
}
