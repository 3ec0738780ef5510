//! Chooses the language of a query, and explains mistakes that come from writing a query of another language.
//!
//! LogQL and PromQL have a common part. A query that is valid LogQL is LogQL; a query that is valid PromQL
//! only is PromQL. A query that is neither is treated as the language that it resembles, so that the error is
//! about the mistake and not about the language.

use clap::ArgMatches;
use sandur_logql::Diagnosis;

/// Whether the query is PromQL: requested, or because of its text.
pub fn is_promql(matches: &ArgMatches, query: &str) -> bool {
    if matches.get_flag("promql") || matches.get_flag("logql") {
        return matches.get_flag("promql");
    }
    let is_promql = resembles_promql(query);
    if is_promql {
        eprintln!("evaluated as PromQL, over metrics (--logql: LogQL, over logs)");
    }
    is_promql
}

fn resembles_promql(query: &str) -> bool {
    if sandur_logql::diagnose(query).is_none() {
        return false;
    }
    if sandur_promql::mistake(query).is_none() {
        return !is_logql_without_unit(query);
    }
    // Every LogQL query has a selector in braces, and nothing but an operator or a parenthesis before it.
    !is_selector_without_braces(query) && (!query.contains('{') || has_named_selector(query))
}

/// `rate({app="web"}[5])`: valid LogQL if the range had a unit. In PromQL the range has 5 seconds.
fn is_logql_without_unit(query: &str) -> bool {
    !query.contains("__name__") && sandur_logql::diagnose(&with_units(query)).is_none()
}

/// The query with seconds as the unit of ranges that have none.
fn with_units(query: &str) -> String {
    let mut written = String::with_capacity(query.len() + 8);
    for (n, part) in query.split('[').enumerate() {
        let digits = part.find(|c: char| !c.is_ascii_digit()).filter(|digits| n > 0 && *digits > 0);
        if n > 0 {
            written.push('[');
        }
        match digits.filter(|digits| part[*digits..].starts_with(']')) {
            Some(digits) => written.extend([&part[..digits], "s", &part[digits..]]),
            None => written.push_str(part),
        }
    }
    written
}

/// `app="web" |= "x"`
fn is_selector_without_braces(query: &str) -> bool {
    let rest = query.trim_start().trim_start_matches(is_name);
    let operator = ["=~", "!~", "!=", "="].into_iter().find_map(|op| rest.trim_start().strip_prefix(op));
    rest.len() < query.trim_start().len() && operator.is_some_and(|value| value.trim_start().starts_with('"'))
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | ':')
}

/// Whether a name of a metric stands directly before `{`, outside of quotes:
/// `rate(http_requests{code=200}[5m])`.
fn has_named_selector(query: &str) -> bool {
    let mut quote = None;
    for (at, c) in query.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '`' | '\'') => quote = Some(c),
            (None, '{') => {
                let before = &query[..at];
                let name = &before[before.trim_end_matches(is_name).len()..];
                let is_function = sandur_logql::function_names().any(|known| known == name);
                return name.starts_with(|c: char| !c.is_ascii_digit()) && !is_function;
            }
            _ => {}
        }
    }
    false
}

/// Whether the text has the form of a Graphite target: a path with dots, at most within calls.
fn resembles_graphite(query: &str) -> bool {
    let mut rest = query.trim();
    while let Some((name, inner)) = rest.split_once('(') {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            break;
        }
        rest = inner.trim_start();
    }
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "_-.*?{}[]".contains(c);
    let end = rest.find(|c| !is_of_path(c)).unwrap_or(rest.len());
    let nodes: Vec<&str> = rest[..end].split('.').collect();
    let begins = nodes[0].starts_with(|c: char| c.is_ascii_alphabetic() || c == '*');
    nodes.len() > 1 && begins && nodes.iter().all(|node| !node.is_empty())
}

/// Advice about a query that the server refused, if it is about the choice of the language.
pub fn advice(query: &str) -> Option<Diagnosis> {
    let is_neither = || sandur_logql::diagnose(query).is_some() && sandur_promql::mistake(query).is_some();
    let help = "this has the form of a Graphite target: add --graphite";
    (resembles_graphite(query) && is_neither()).then(|| Diagnosis { span: None, help: Some(help.to_owned()) })
}

/// The help for a value without quotes in a PromQL selector: `up{code=⟦200⟧}`.
pub fn unquoted_value(query: &str, start: usize) -> Option<String> {
    let before = query.get(..start)?.trim_end();
    let compares = ["=", "=~", "!~"].iter().any(|operator| before.ends_with(operator));
    let word: String =
        query[start..].chars().take_while(|c| !c.is_whitespace() && !",}\"'`".contains(*c)).collect();
    (compares && !word.is_empty()).then(|| {
        format!("values of labels must be in quotes: \"{word}\"; in a shell, put the query in single quotes")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_taken_for_the_language_that_it_resembles() {
        for (query, expected) in [
            (r#"{app="web"}"#, false),
            (r#"rate({app="web"}[5m])"#, false),
            ("up", true),
            (r#"rate(http_requests_total{code="200"}[5m])"#, true),
            ("http_requests_total{code=200}", true),
            ("sum(rate(http_requests_total{code=200}[5m]))", true),
            (r#"app="web""#, false),
            (r#"app="web", env=~"p.*" |= "x""#, false),
            (r#"rate({app="web"}[5])"#, false),
            (r#"sum by (app) (count_over_time({app="web"} |= "[" [60]))"#, false),
            (r#"rate({__name__="up"}[5])"#, true),
            (r#"rate({app="web"} | jsn [5m])"#, false),
            (r#"{app=web}"#, false),
            ("rat(up[5m])", true),
        ] {
            assert_eq!(resembles_promql(query), expected, "{query}");
        }
    }

    #[test]
    fn targets_of_graphite_are_recognised() {
        for (query, expected) in [
            (r#"summarize(servers.*.load, "1h")"#, true),
            ("servers.{a,b}.load", true),
            ("scale(sumSeries(servers.web-*.load), 100)", true),
            (r#"{app="web"} | res.status = 500"#, false),
            ("rat(up[5m])", false),
            ("rate(up[5m]) * 1.5 +", false),
        ] {
            assert_eq!(advice(query).is_some(), expected, "{query}");
        }
    }

    #[test]
    fn values_without_quotes_are_explained() {
        let query = "http_requests_total{code=200}";
        let (span, _) = sandur_promql::mistake(query).unwrap();
        assert!(unquoted_value(query, span.start).unwrap().contains(r#""200""#), "{span:?}");
        assert_eq!(unquoted_value("up +", 4), None);
    }
}
