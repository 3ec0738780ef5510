//! Checks a query against its tenant's limits before it runs, with Loki's error texts.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};
use sandur_model::go_text::{format_binary_bytes, format_prometheus_duration};
use sandur_model::{Limits, Matcher, REGEX_BYTES_MAX, TimeRange};
use sandur_query::{Error, LogSource, QueryContext, StreamsRequest};

use crate::ast::{Expr, LogExpr, MetricExpr};
use crate::go_regex::translate;
use crate::lexer::{Kind, tokenize};
use crate::parser::QUERY_BYTES_MAX;
use crate::request::Steps;
use crate::stage::node::Effect;

/// The hash that identifies a query in logs and in `blocked_queries`: 32-bit FNV-1 of its text.
pub fn query_hash(text: &str) -> u32 {
    text.bytes().fold(0x811C_9DC5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(byte))
}

/// The kind of a query: `metric`, `filter` (it filters lines or labels) or `limited` (it does not).
pub fn query_type(expr: &Expr) -> &'static str {
    let Expr::Log(log) = expr else { return "metric" };
    let filters = log.stages.iter().any(|stage| match stage.line_filter() {
        Some(filter) => !filter.passes_all(),
        // A stage that changes nothing and is not a line filter is a label filter.
        None => stage.effect() == Effect::default(),
    });
    if filters { "filter" } else { "limited" }
}

/// Compiles the regular expression of a policy, in Go's syntax.
pub fn policy_regex(pattern: &str) -> Result<Regex, String> {
    let translated = translate(pattern).map_err(|error| error.to_string())?;
    let built = RegexBuilder::new(&translated).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|error| error.to_string())
}

/// Fails if a policy of the tenant blocks the query. `tags` are those of the request, as pairs of
/// lower-case name and value. The first policy whose hash or pattern matches decides.
pub fn check_blocked(
    expr: &Expr,
    text: &str,
    tags: &[(String, String)],
    limits: &Limits,
) -> Result<(), Error> {
    check_blocked_kind(query_type(expr), text, tags, limits)
}

/// Fails if a policy blocks a query of this kind, in any language.
pub fn check_blocked_kind(
    kind: &str,
    text: &str,
    tags: &[(String, String)],
    limits: &Limits,
) -> Result<(), Error> {
    for policy in &limits.blocked_queries {
        let fits = if policy.hash > 0 {
            policy.hash == query_hash(text)
        } else if policy.pattern.is_empty() {
            true
        } else if policy.regex {
            let compile = || policy_regex(&policy.pattern).ok();
            policy.compiled.get(compile).is_some_and(|regex| regex.is_match(text))
        } else {
            policy.pattern.trim() == text.trim()
        };
        if !fits {
            continue;
        }
        let of_kind = policy.types.is_empty() || policy.types.iter().any(|t| t == kind);
        let given: HashMap<&str, &str> = tags.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let tagged = policy.tags.iter().all(|(name, value)| {
            given.get(name.to_lowercase().as_str()).is_some_and(|given| given.eq_ignore_ascii_case(value))
        });
        if of_kind && tagged {
            return Err(Error::Limit("query blocked by policy".to_owned()));
        }
        return Ok(());
    }
    Ok(())
}

/// Checks every selector of the query: it has enough matchers, not too many, and the required ones.
pub fn check_selectors(expr: &Expr, limits: &Limits) -> Result<(), Error> {
    expr.log_expressions().into_iter().try_for_each(|log| check_matchers(&log.matchers, limits))
}

fn check_matchers(matchers: &[Matcher], limits: &Limits) -> Result<(), Error> {
    let present = || matchers.iter().map(Matcher::name).collect::<Vec<_>>().join(", ");
    let is_missing = |label: &&String| !matchers.iter().any(|m| m.name() == **label);
    let missing: Vec<&str> = limits.required_labels.iter().filter(is_missing).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(Error::Limit(format!(
            "stream selector is missing required matchers [{}], labels present in the query were [{}]",
            missing.join(", "),
            present()
        )));
    }
    let (count, least) = (matchers.len() as u64, limits.minimum_labels_number);
    if count < least {
        return Err(Error::Limit(format!(
            "stream selector has less label matchers than required: (present: [{}], number_present: {count}, \
             required_number_label_matchers: {least})",
            present()
        )));
    }
    check_count(count, limits)
}

fn check_count(count: u64, limits: &Limits) -> Result<(), Error> {
    let most = limits.max_streams_matchers_per_query;
    if most > 0 && count > most {
        return Err(Error::Limit(format!(
            "max streams matchers per query exceeded, matchers-count > limit ({count} > {most})"
        )));
    }
    Ok(())
}

/// Fails if a selector of the query has too many matchers, before any of them is compiled.
pub fn check_matcher_counts(text: &str, limits: &Limits) -> Result<(), Error> {
    matcher_counts(text).into_iter().try_for_each(|count| check_count(count, limits))
}

/// Fails if the selectors of one request have more matchers together than one may have, before any of them
/// is compiled. An empty selector counts as one matcher, as does each of `others`.
pub fn check_selector_sizes<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    others: u64,
    limits: &Limits,
) -> Result<(), Error> {
    let of_text = |text| matcher_counts(text).into_iter().sum::<u64>().max(1);
    check_count(others + texts.into_iter().map(of_text).sum::<u64>(), limits)
}

/// Counts the matchers of each selector of a text by its tokens. Empty if the text is too long to be
/// parsed.
fn matcher_counts(text: &str) -> Vec<u64> {
    if text.len() >= QUERY_BYTES_MAX {
        return Vec::new();
    }
    let (mut counts, mut is_open) = (Vec::new(), false);
    for token in tokenize(text) {
        match token.kind {
            Kind::Word("{") => {
                counts.push(0);
                is_open = true;
            }
            Kind::Word("}") => is_open = false,
            Kind::Word("=" | "!=" | "=~" | "!~") if is_open => *counts.last_mut().unwrap_or(&mut 0) += 1,
            _ => {}
        }
    }
    counts
}

/// Checks the window lengths of a metric query.
pub fn check_ranges(expr: &MetricExpr, limits: &Limits) -> Result<(), Error> {
    let most = limits.max_query_range;
    for range in expr.range_aggregations() {
        if most > 0 && range.range_ns > most {
            return Err(Error::Limit(format!(
                "[interval] value exceeds limit: [{}] > [{}]",
                format_prometheus_duration(range.range_ns),
                format_prometheus_duration(most)
            )));
        }
    }
    Ok(())
}

/// The selectors that a metric query reads, each with its time range.
pub fn reads<'a>(expr: &'a MetricExpr, steps: &Steps) -> Vec<(&'a LogExpr, TimeRange)> {
    let read = |range: &'a crate::ast::RangeAggregation| {
        let first = steps.first_ns.saturating_sub(range.offset_ns).saturating_sub(range.range_ns);
        let last = steps.last_ns.saturating_sub(range.offset_ns);
        (&range.log, TimeRange::inclusive(first.saturating_add(1), last))
    };
    expr.range_aggregations().into_iter().map(read).collect()
}

/// Fails if the streams of the selectors have more line bytes in their time ranges than a query may read.
pub async fn check_size(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    reads: Vec<(&LogExpr, TimeRange)>,
) -> Result<(), Error> {
    let most = limits.max_query_bytes_read;
    if most == 0 {
        return Ok(());
    }
    let bytes = size(source, context, reads).await?;
    if bytes > most {
        let (bytes, most) = (format_binary_bytes(bytes), format_binary_bytes(most));
        return Err(Error::Limit(format!(
            "the query would read too many bytes (query: {bytes}, limit: {most}); consider adding more \
             specific stream selectors or reduce the time range of the query"
        )));
    }
    Ok(())
}

/// Fails if one piece of a query would read more line bytes than allowed.
pub async fn check_piece_size(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    reads: Vec<(&LogExpr, TimeRange)>,
) -> Result<(), Error> {
    let most = limits.max_querier_bytes_read;
    if most == 0 {
        return Ok(());
    }
    let bytes = size(source, context, reads).await?;
    if bytes > most {
        let (bytes, most) = (format_binary_bytes(bytes), format_binary_bytes(most));
        return Err(Error::Limit(format!(
            "query too large to execute on a single querier: (query: {bytes}, limit: {most}); consider \
             adding more specific stream selectors, reduce the time range of the query, or adjust \
             parallelization settings"
        )));
    }
    Ok(())
}

async fn size(
    source: &dyn LogSource,
    context: &QueryContext,
    reads: Vec<(&LogExpr, TimeRange)>,
) -> Result<u64, Error> {
    let mut bytes = 0u64;
    for (log, range) in reads {
        let volumes =
            source.volumes(context, StreamsRequest { matchers: log.matchers.clone(), range }).await?;
        bytes += volumes.iter().map(|volume| volume.bytes).sum::<u64>();
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_model::BlockedQuery;

    fn refusal(query: &str, limits: &Limits) -> String {
        let expr = crate::parse(query).unwrap();
        let checked = check_selectors(&expr, limits).and_then(|()| match &expr {
            Expr::Metric(metric) => check_ranges(metric, limits),
            Expr::Log(_) => Ok(()),
        });
        checked.err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn refused_selectors_and_windows_have_lokis_error_texts() {
        let none = Limits::default();
        let required = Limits { required_labels: vec!["app".into(), "env".into()], ..Limits::default() };
        let three = Limits { minimum_labels_number: 3, ..Limits::default() };
        let one = Limits { max_streams_matchers_per_query: 1, ..Limits::default() };
        let short = Limits { max_query_range: 1_800_000_000_000, ..Limits::default() };
        let query = r#"{env="b", x="y"}"#;
        let metric = r#"rate({app="a"}[5m]) / rate({env="b", x="y"}[1h])"#;
        assert_eq!(refusal(query, &none) + &refusal(metric, &none), "");
        for text in [query, metric] {
            let missing = if text == query { "app" } else { "env" };
            let present = if text == query { "env, x" } else { "app" };
            assert_eq!(
                refusal(text, &required),
                format!(
                    "stream selector is missing required matchers [{missing}], \
                     labels present in the query were [{present}]"
                )
            );
        }
        assert_eq!(
            refusal(query, &three),
            "stream selector has less label matchers than required: (present: [env, x], number_present: 2, \
             required_number_label_matchers: 3)"
        );
        assert_eq!(
            refusal(query, &one),
            "max streams matchers per query exceeded, matchers-count > limit (2 > 1)"
        );
        assert_eq!(refusal(metric, &short), "[interval] value exceeds limit: [1h] > [30m]");
    }

    fn blocked(policies: &[BlockedQuery], query: &str, tags: &[(&str, &str)]) -> bool {
        let tags: Vec<_> = tags.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let limits = Limits { blocked_queries: policies.to_vec(), ..Limits::default() };
        check_blocked(&crate::parse(query).unwrap(), query, &tags, &limits).is_err()
    }

    #[test]
    fn policies_block_by_pattern_kind_hash_and_tags() {
        let policy = |pattern: &str, regex: bool, types: &[&str]| BlockedQuery {
            pattern: pattern.into(),
            regex,
            types: types.iter().map(|t| (*t).to_owned()).collect(),
            ..BlockedQuery::default()
        };
        let query = r#"{app="a"} |= "x""#;
        assert!(!blocked(&[], query, &[]));
        assert!(blocked(&[policy(r#" {app="a"} |= "x" "#, false, &[])], query, &[]));
        assert!(!blocked(&[policy("app", false, &[])], query, &[]));
        assert!(blocked(&[policy("app=.a", true, &["filter"])], query, &[]));
        assert!(blocked(&[policy(r#"\Q{app="a"}\E[[=| ]+"x"#, true, &[])], query, &[]), "Go's syntax");
        let compiled = policy("app=.a", true, &[]);
        assert!(blocked(std::slice::from_ref(&compiled), query, &[]));
        assert!(compiled.compiled.get(|| panic!("the pattern is already compiled")).is_some());
        assert!(!blocked(&[policy("app=.a", true, &["metric", "limited"])], query, &[]));
        assert!(blocked(&[policy("", false, &["limited"])], r#"{app="a"} | json"#, &[]));
        assert!(blocked(&[policy("", false, &["metric"])], r#"rate({app="a"}[1m])"#, &[]));
        // The first match decides, even if it does not block.
        assert!(!blocked(&[policy("", false, &["metric"]), policy(".*", true, &[])], query, &[]));
        let hash = BlockedQuery { hash: query_hash(query), ..BlockedQuery::default() };
        assert!(blocked(std::slice::from_ref(&hash), query, &[]) && !blocked(&[hash], r#"{app="a"}"#, &[]));
        let tags = [("Source".to_owned(), "Grafana".to_owned())].into();
        let tagged = BlockedQuery { tags, ..BlockedQuery::default() };
        assert!(blocked(std::slice::from_ref(&tagged), query, &[("a", "b"), ("source", "grafana")]));
        assert!(!blocked(&[tagged], query, &[("source", "other")]));
        assert_eq!(query_hash("hello"), 0xB6FA_7167, "FNV-1, as in Loki's logs");
    }
}
