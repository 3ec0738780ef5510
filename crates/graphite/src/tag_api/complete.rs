//! `/tags/autoComplete/tags` and `/tags/autoComplete/values`: completions of a tag or a value that is being
//! typed.

use sandur_query::QueryContext;

use super::{COMPLETED, LIMIT_MAX, Names, Parameters, Wanted};
use crate::error::Error;
use crate::rendered::Rendered;
use crate::tags::TagExpression;

/// Lists the tags of matching series, except those in the expressions of the request.
pub async fn complete_tags(
    names: &dyn Names,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let (texts, limit) = (parameters.expressions()?, parameters.limit(COMPLETED)?);
    let expressions = read(context, texts).await?;
    let filter = parameters.prefix("tagPrefix");
    // The tags in the expressions are found too, and removed afterwards.
    let most = limit.saturating_add(expressions.len()).min(LIMIT_MAX);
    let wanted = Wanted { expressions: &expressions, filter: &filter, limit: most };
    let mut tags = names.tags(context, wanted).await?;
    tags.retain(|tag| expressions.iter().all(|one| one.tag != *tag));
    tags.truncate(limit);
    parameters.list(context, tags).await
}

/// Lists the values of a tag in matching series.
pub async fn complete_values(
    names: &dyn Names,
    context: &QueryContext,
    pairs: &[(String, String)],
) -> Result<Rendered, Error> {
    let parameters = Parameters(pairs);
    let (texts, limit) = (parameters.expressions()?, parameters.limit(COMPLETED)?);
    let tag = parameters.last("tag").filter(|tag| !tag.is_empty());
    let tag = tag.ok_or_else(|| Error::invalid("no tag specified"))?;
    let has_tag = format!("{tag}!=");
    let has_tag = (!texts.is_empty()).then_some(has_tag.as_str());
    let expressions = read(context, texts.into_iter().chain(has_tag).collect()).await?;
    let filter = parameters.prefix("valuePrefix");
    let wanted = Wanted { expressions: &expressions, filter: &filter, limit };
    let values = names.values(context, tag, wanted).await?;
    parameters.list(context, values).await
}

async fn read(context: &QueryContext, texts: Vec<&str>) -> Result<Vec<TagExpression>, Error> {
    match texts.is_empty() {
        true => Ok(Vec::new()),
        false => TagExpression::parse_for(context, texts.into_iter().map(str::to_owned).collect()).await,
    }
}
