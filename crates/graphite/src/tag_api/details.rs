//! `/tags/TAG`: the values of a tag, and the number of series with each.

use sandur_query::QueryContext;

use super::{LIMIT_MAX, NameFilter, Names, Parameters, Wanted};
use crate::encoding::json::quoted;
use crate::error::Error;
use crate::rendered::Rendered;

/// Lists the values of a tag; `null` if no series has it.
pub async fn tag_details(
    names: &dyn Names,
    context: &QueryContext,
    tag: &str,
    pairs: &[(String, String)],
) -> Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let filter = parameters.filter(context).await?;
    let wanted = Wanted { expressions: &[], filter: &filter, limit: parameters.limit(LIMIT_MAX)? };
    let values = names.counted_values(context, tag, wanted).await?;
    if values.is_empty() {
        let all = NameFilter::Prefix(String::new());
        let any = Wanted { expressions: &[], filter: &all, limit: 1 };
        if names.values(context, tag, any).await?.is_empty() {
            return Ok(parameters.answer("null".to_owned()));
        }
    }
    let layout = parameters.layout();
    let part = |(value, count): &(String, u64)| {
        let members = [format!("\"value\": {}", quoted(value)), format!("\"count\": {count}")];
        layout.join(('{', '}'), 2, &members)
    };
    let values: Vec<String> = values.iter().map(part).collect();
    let members =
        [format!("\"tag\": {}", quoted(tag)), format!("\"values\": {}", layout.join(('[', ']'), 1, &values))];
    Ok(parameters.answer(layout.join(('{', '}'), 0, &members)))
}
