//! Parses selectors in parameters of the index endpoints.
//!
//! They are parsed like queries: on the CPU pool, round-robin over tenants, charged to the query and
//! cancelled with it, because regular expressions need time and memory to compile. The number of matchers
//! is checked before the first one is compiled.

use sandur_logql::{check_selector_sizes, parse_selecting, parse_selector};
use sandur_model::{Limits, Matcher};
use sandur_query::{Error, QueryContext};

use super::EMPTY_QUERY;
use crate::failure::Failure;
use crate::query_text::{on_text, on_texts};

/// Whether a selector is `{}`.
pub fn is_every_stream(text: &str) -> bool {
    text.split_whitespace().collect::<String>() == "{}"
}

/// The matchers of a selector; none if it is absent or `{}`.
pub async fn optional(context: &QueryContext, limits: &Limits, text: &str) -> Result<Vec<Matcher>, Failure> {
    check(limits, text)?;
    on_text(context, text, read_optional).await?
}

/// Like [`optional`], for several selectors.
pub async fn each_optional(
    context: &QueryContext,
    limits: &Limits,
    texts: impl Iterator<Item = &str>,
) -> Result<Vec<Vec<Matcher>>, Failure> {
    let texts: Vec<String> = texts.map(str::to_owned).collect();
    check_selector_sizes(texts.iter().map(String::as_str), 0, limits)?;
    on_texts(context, texts, |texts| texts.iter().map(|text| read_optional(text)).collect()).await?
}

fn check(limits: &Limits, text: &str) -> Result<(), Failure> {
    Ok(check_selector_sizes(std::iter::once(text), 0, limits)?)
}

fn read_optional(text: &str) -> Result<Vec<Matcher>, Failure> {
    if text.trim().is_empty() || is_every_stream(text) {
        return Ok(Vec::new());
    }
    Ok(parse_selector(text)?)
}

/// The matchers of a required selector.
pub async fn required(context: &QueryContext, limits: &Limits, text: &str) -> Result<Vec<Matcher>, Failure> {
    read_required(context, limits, text, parse_selector).await
}

/// The matchers of a required selector, of which at least one must not match an absent label.
pub async fn required_selecting(
    context: &QueryContext,
    limits: &Limits,
    text: &str,
) -> Result<Vec<Matcher>, Failure> {
    read_required(context, limits, text, parse_selecting).await
}

async fn read_required(
    context: &QueryContext,
    limits: &Limits,
    text: &str,
    parse: fn(&str) -> Result<Vec<Matcher>, Error>,
) -> Result<Vec<Matcher>, Failure> {
    check(limits, text)?;
    on_text(context, text, move |text| match text.trim() {
        "" => Err(Failure::invalid(EMPTY_QUERY)),
        _ => Ok(parse(text)?),
    })
    .await?
}

/// Like [`required_selecting`], but without matchers if the selector is absent.
pub async fn optional_selecting(
    context: &QueryContext,
    limits: &Limits,
    text: &str,
) -> Result<Vec<Matcher>, Failure> {
    if text.trim().is_empty() { Ok(Vec::new()) } else { required_selecting(context, limits, text).await }
}
