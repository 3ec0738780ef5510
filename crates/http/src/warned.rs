//! Adds the warnings of a query as headers, for formats that have no place for them: Graphite's,
//! federation, remote read, and some of Loki's.
//!
//! Every handler that queries begins a line of the query log, which notes the query here, so handlers
//! need no code for this. Warnings that arise after the head of the answer was sent are in no header.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use sandur_service::AnsweredBy;

/// The header; it is repeated for each warning.
const WARNING: HeaderName = HeaderName::from_static("x-sandur-warning");
/// Maximum number of warnings: proxies refuse answers with long heads.
const SHOWN_MAX: usize = 4;
/// Maximum characters of a warning.
const CHARS_MAX: usize = 400;

/// Appends the warnings of the query that answers a request to the headers of its answer.
pub fn show(answered_by: &AnsweredBy, headers: &mut HeaderMap) {
    show_texts(&answered_by.warnings(), headers);
}

/// Appends warnings to the headers of an answer that is made of no query.
pub fn show_texts(warnings: &[String], headers: &mut HeaderMap) {
    for warning in warnings.iter().take(SHOWN_MAX) {
        headers.append(WARNING, value(warning));
    }
}

/// Converts a text to a header value: other characters than printable ASCII become `?`.
fn value(text: &str) -> HeaderValue {
    let shown = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    let text: String = text.chars().take(CHARS_MAX).map(shown).collect();
    HeaderValue::from_str(&text).expect("printable characters of ASCII make a header")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::TenantId;
    use sandur_query::QueryContext;
    use sandur_runtime::Env;

    use super::*;

    #[tokio::test]
    async fn warnings_are_few_short_and_valid_headers() {
        let budget = MemoryBudget::root("query", 1 << 20);
        let (env, tenant) = (Env::simulated(1, 0), TenantId::default_tenant());
        let context = QueryContext::new(env, tenant, budget, Duration::from_secs(60));
        let (warned, mut headers) = (AnsweredBy::default(), HeaderMap::new());
        show(&warned, &mut headers);
        assert!(headers.is_empty(), "there was no query");
        warned.note(&context);
        show(&warned, &mut headers);
        assert!(headers.is_empty(), "there is no warning");
        context.warn("'blocks/ä\r\nSet-Cookie: a' is damaged");
        (0..10).for_each(|n| context.warn(format!("{n}{}", "x".repeat(1_000))));
        show(&warned, &mut headers);
        let shown: Vec<&str> = headers.get_all(&WARNING).iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(shown.len(), SHOWN_MAX);
        assert_eq!(shown[0], "'blocks/???Set-Cookie: a' is damaged");
        assert!(shown.iter().all(|text| text.len() <= CHARS_MAX));
    }
}
