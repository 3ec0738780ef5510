//! Parses queries and selectors, and writes and parses the selectors of delete requests.

use sandur_model::Matcher;
use sandur_promql::{Expr, parse_selector};
use sandur_query::{Error, QueryContext, SeriesSelector};

use crate::query_text::{on_text, on_texts};

/// Parses a query, as [`on_text`] runs it.
pub async fn parse(context: &QueryContext, text: &str) -> Result<Expr, Error> {
    Ok(on_text(context, text, sandur_promql::parse).await??)
}

/// Parses selectors in the same way. Each must have a matcher that does not match an absent label.
pub async fn parse_selectors(context: &QueryContext, texts: Vec<String>) -> Result<Vec<Vec<Matcher>>, Error> {
    let read =
        |texts: &[String]| texts.iter().map(|text| parse_selector(text)).collect::<Result<Vec<_>, _>>();
    let all = on_texts(context, texts, read).await??;
    match all.iter().all(|matchers| matchers.iter().any(|matcher| !matcher.matches_empty())) {
        true => Ok(all),
        false => Err(Error::Invalid("match[] must contain at least one non-empty matcher".to_owned())),
    }
}

/// The text of a selector of samples, as delete requests store it.
pub fn selector_text(matchers: &[Matcher]) -> String {
    let one = |matcher: &Matcher| {
        let name = sandur_model::go_text::quote(matcher.name());
        format!("{name}{}{}", matcher.op().as_str(), sandur_model::go_text::quote(matcher.value()))
    };
    format!("{{{}}}", matchers.iter().map(one).collect::<Vec<_>>().join(","))
}

/// Prefix of the selector of a delete request that does not match series with additional labels.
const EXACTLY: &str = "exactly ";

/// The text of a selector for the series with exactly these labels, as delete requests store it.
pub fn exact_selector_text(matchers: &[Matcher]) -> String {
    format!("{EXACTLY}{}", selector_text(matchers))
}

/// Parses the selector of a delete request.
pub fn series_selector(text: &str) -> Result<SeriesSelector, Error> {
    Ok(match text.strip_prefix(EXACTLY) {
        Some(text) => SeriesSelector::exactly(parse_selector(text)?),
        None => SeriesSelector::new(parse_selector(text)?),
    })
}
