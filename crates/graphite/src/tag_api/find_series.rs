//! `/tags/findSeries`: series whose tags match expressions.

use sandur_query::QueryContext;

use super::Parameters;
use crate::error::Error;
use crate::evaluate::SERIES_MAX;
use crate::rendered::Rendered;
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
    let expressions = expressions.into_iter().map(str::to_owned).collect();
    let expressions = TagExpression::parse_for(context, expressions).await?;
    let found = source.tagged(context, &expressions).await?;
    if found.len() > SERIES_MAX {
        let message = format!("more than {SERIES_MAX} series fit; add an expression that fits fewer");
        return Err(Error::Limit(message));
    }
    parameters.list(context, found).await
}
