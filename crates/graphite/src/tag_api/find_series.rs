//! `/tags/findSeries`: series whose tags fit expressions.

use sandur_query::QueryContext;

use super::Parameters;
use crate::encoding::json::quoted;
use crate::error::Error;
use crate::evaluate::SERIES_MAX;
use crate::render::Rendered;
use crate::source::Source;
use crate::tags::TagExpression;

/// Lists canonical names.
pub async fn find_series(
    source: &dyn Source,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let expressions = parameters.expressions()?;
    if expressions.is_empty() {
        return Err(Error::invalid("no tag expressions specified"));
    }
    let expressions = TagExpression::parse_all(expressions)?;
    let found = source.tagged(context, &expressions).await?;
    if found.len() > SERIES_MAX {
        let message = format!("more than {SERIES_MAX} series fit; add an expression that fits fewer");
        return Err(Error::Limit(message));
    }
    let parts: Vec<String> = found.iter().map(|name| quoted(name)).collect();
    Ok(parameters.answer(parameters.layout().join(('[', ']'), 0, &parts)))
}
