//! Runs work on the texts of queries, such as parsing.

use sandur_query::{Error, QueryContext};

/// Up to this many short texts are parsed on the current thread.
const TEXTS_AT_ONCE: usize = 4;

/// Runs work on the text of a query, such as parsing: on the current thread if the text is short, otherwise
/// on the CPU pool, which is round-robin over tenants.
pub async fn on_text<T: Send + 'static>(
    context: &QueryContext,
    text: &str,
    work: impl FnOnce(&str) -> T + Send + 'static,
) -> Result<T, Error> {
    on_texts(context, vec![text.to_owned()], |texts| work(&texts[0])).await
}

/// Like [`on_text`], for several texts.
pub async fn on_texts<T: Send + 'static>(
    context: &QueryContext,
    texts: Vec<String>,
    work: impl FnOnce(&[String]) -> T + Send + 'static,
) -> Result<T, Error> {
    let is_little = texts.len() <= TEXTS_AT_ONCE && texts.iter().all(|text| sandur_logql::is_short(text));
    context.compute_sized(is_little, move || Ok(work(&texts))).await
}
