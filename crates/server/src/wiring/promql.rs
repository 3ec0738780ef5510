//! PromQL and its answers as handlers and commands see them.

use sandur_model::Matcher;
pub use sandur_promql::{
    Answer, Expr, Options, Point, Request, Series, Times, Value, check_times, parse_duration, parse_selector,
    pretty, query_parsed, to_json, windows,
};
use sandur_query::{Error, QueryContext, SeriesSelector};

/// Names of all functions.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    sandur_promql::FUNCTIONS.iter().map(|function| function.name)
}

/// A query, read in its tenant's turn on the CPU pool.
pub async fn parse(context: &QueryContext, text: &str) -> Result<Expr, Error> {
    let (text, is_little) = (text.to_owned(), sandur_logql::is_short(text));
    context.compute_sized(is_little, move || Ok(sandur_promql::parse(&text)?)).await
}

/// The matchers of selectors, read in the same way. Each has to select by more than what is absent.
pub async fn parse_selectors(context: &QueryContext, texts: Vec<String>) -> Result<Vec<Vec<Matcher>>, Error> {
    let is_little = texts.len() <= 4 && texts.iter().all(|text| sandur_logql::is_short(text));
    let read = move || {
        let one = |text: &String| Ok(parse_selector(text)?);
        texts.iter().map(one).collect::<Result<Vec<_>, Error>>()
    };
    let all = context.compute_sized(is_little, read).await?;
    match all.iter().all(|matchers| matchers.iter().any(|matcher| !matcher.matches_empty())) {
        true => Ok(all),
        false => Err(Error::Invalid("match[] must contain at least one non-empty matcher".to_owned())),
    }
}

/// A selector of samples as delete requests keep it.
pub fn selector_text(matchers: &[Matcher]) -> String {
    let one = |matcher: &Matcher| {
        let name = sandur_logql::quote(matcher.name());
        format!("{name}{}{}", matcher.op().as_str(), sandur_logql::quote(matcher.value()))
    };
    format!("{{{}}}", matchers.iter().map(one).collect::<Vec<_>>().join(","))
}

/// What stands before the selector of a request that leaves series with other labels out.
const EXACTLY: &str = "exactly ";

/// A selector of the series that have these labels and no others, as delete requests keep it.
pub fn exact_selector_text(matchers: &[Matcher]) -> String {
    format!("{EXACTLY}{}", selector_text(matchers))
}

/// The selector of a delete request.
pub fn series_selector(text: &str) -> Result<SeriesSelector, Error> {
    Ok(match text.strip_prefix(EXACTLY) {
        Some(text) => SeriesSelector::exactly(parse_selector(text)?),
        None => SeriesSelector::new(parse_selector(text)?),
    })
}

/// What is wrong with the text of a query: the bytes that are meant, and the words for people.
pub fn mistake(text: &str) -> Option<(std::ops::Range<usize>, String)> {
    let error = sandur_promql::parse(text).err()?;
    let at = |byte: u32| text.floor_char_boundary(byte as usize);
    Some((at(error.span.start)..at(error.span.end), error.what))
}
