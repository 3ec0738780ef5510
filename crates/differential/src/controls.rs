//! Control requests: a request without the construct that a rule is about.
//!
//! Answers alone do not show the cause of some differences. A rule for these names a control request,
//! and explains the difference only if both servers answer the control equally: then the removed
//! construct is the cause. There is no control for a query that is only known as text, since nothing can
//! be removed from it safely.

use sandur_bench::http::Answer;
use serde_json::Value;

use crate::ask::Ask;
use crate::corpus::{HALF_NS, MIDDLE_NS};
use crate::grammar::{Metric, NAMES, Query};

/// The operators of line filters.
const LINE_FILTERS: [&str; 6] = ["|=", "!=", "|~", "!~", "|>", "!>"];

/// Returns whether a stage is a line filter.
pub fn filters_lines(stage: &str) -> bool {
    LINE_FILTERS.iter().any(|operator| stage.starts_with(operator))
}

/// Returns whether a line filter matches an address or something else.
pub fn address_or_other(stage: &str) -> bool {
    filters_lines(stage) && stage.contains("ip(") && stage.contains(" or ")
}

/// Returns whether a filter matches an address that begins with colons.
pub fn address_of_colons(part: &str) -> bool {
    part.contains("ip(\"::") || part.contains("ip(`::")
}

/// Returns whether a line filter has an alternative that matches every line.
pub fn any_line_or_other(stage: &str) -> bool {
    let any = ["\"\"", "``", "\".*\"", "`.*`"];
    let stands = |text: &&str| stage.contains(&format!("or {text}")) || stage.contains(&format!("{text} or"));
    filters_lines(stage) && any.iter().any(stands)
}

/// Returns whether a label filter has an empty expression.
pub fn empty_expression(filter: &str) -> bool {
    let empty = ["=~ \"\"", "!~ \"\"", "=~ ``", "!~ ``", "=~\"\"", "!~\"\"", "=~``", "!~``"];
    empty.iter().any(|text| filter.contains(text))
}

/// Returns whether `logfmt` sets labels from keys with other names.
pub fn renames_keys(stage: &str) -> bool {
    stage.starts_with("| logfmt") && stage.contains("=\"")
}

/// Returns the stages, and the filters after `unwrap`, of a query that is known as a tree.
pub fn parts(ask: &Ask) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(query) = &ask.query {
        query.clone().each_part(&mut |parts| all.extend(parts.iter().cloned()));
    }
    all
}

fn edited(ask: &Ask, edit: impl FnOnce(&mut Query)) -> Option<Ask> {
    let mut query = ask.query.clone()?;
    edit(&mut query);
    (query.to_string() != ask.query_text()).then(|| ask.with_query(query))
}

/// Removes the stages and filters for which `is_cause` is true.
fn without(ask: &Ask, is_cause: fn(&str) -> bool) -> Option<Ask> {
    edited(ask, |query| query.each_part(&mut |parts| parts.retain(|part| !is_cause(part))))
}

/// Removes line filters that match an address or something else.
pub fn without_address_or_other(ask: &Ask) -> Option<Ask> {
    without(ask, address_or_other)
}

/// Removes filters for addresses that begin with colons.
pub fn without_address_of_colons(ask: &Ask) -> Option<Ask> {
    without(ask, address_of_colons)
}

/// Removes line filters that match every line.
pub fn without_any_line(ask: &Ask) -> Option<Ask> {
    without(ask, any_line_or_other)
}

/// Removes label filters with an empty expression.
pub fn without_empty_expressions(ask: &Ask) -> Option<Ask> {
    without(ask, empty_expression)
}

/// Lets `logfmt` extract every key under its own name.
pub fn without_renamed_keys(ask: &Ask) -> Option<Ask> {
    let plain = |stage: &mut String| {
        if renames_keys(stage) {
            let flags = stage.split(' ').filter(|word| word.starts_with("--"));
            *stage = flags.fold("| logfmt".to_owned(), |text, flag| text + " " + flag);
        }
    };
    edited(ask, |query| query.each_part(&mut |parts| parts.iter_mut().for_each(plain)))
}

/// Removes the parameter `interval`.
pub fn without_interval(ask: &Ask) -> Option<Ask> {
    let mut other = ask.clone();
    other.parameters.retain(|(name, _)| name != "interval");
    Some(other)
}

/// Replaces the query by the one in our answer.
pub fn formatted(ask: &Ask, ours: &Answer) -> Option<Ask> {
    let body: Value = serde_json::from_slice(&ours.body).ok()?;
    Some(ask.with_query(Query::Text(body.get("data")?.as_str()?.to_owned())))
}

/// Extends the time range to the complete corpus.
pub fn about_all_time(ask: &Ask) -> Option<Ask> {
    let mut other = ask.clone();
    other.parameters.retain(|(name, _)| name != "start" && name != "end");
    Some(other.with("start", MIDDLE_NS - HALF_NS).with("end", MIDDLE_NS + HALF_NS))
}

/// Excludes lines that have a field `__error__`.
pub fn without_error_fields(ask: &Ask) -> Option<Ask> {
    edited(ask, |query| query.each_log(&mut |log| log.stages.insert(0, "!= \"__error__=\"".to_owned())))
}

/// Excludes lines with a number that exceeds the range of floating-point numbers.
pub fn without_huge_numbers(ask: &Ask) -> Option<Ask> {
    edited(ask, |query| query.each_log(&mut |log| log.stages.insert(0, "!= \"1e400\"".to_owned())))
}

/// Returns whether a template decodes base64.
pub fn decodes_base64(part: &str) -> bool {
    part.contains("_format") && part.contains("b64dec")
}

/// Replaces base64 decoding by encoding.
pub fn without_base64(ask: &Ask) -> Option<Ask> {
    let encode = |part: &mut String| *part = part.replace("b64dec", "b64enc");
    edited(ask, |query| query.each_part(&mut |parts| parts.iter_mut().for_each(encode)))
}

/// Returns whether a label filter compares with a size in powers of two.
pub fn binary_size(part: &str) -> bool {
    !filters_lines(part) && part.contains("KiB")
}

/// Replaces sizes in powers of two by sizes in powers of ten.
pub fn without_binary_sizes(ask: &Ask) -> Option<Ask> {
    let decimal = |part: &mut String| *part = part.replace("KiB", "KB");
    edited(ask, |query| query.each_part(&mut |parts| parts.iter_mut().for_each(decimal)))
}

/// Replaces the function `from` by `to`.
fn with_function(ask: &Ask, from: &str, to: &str) -> Option<Ask> {
    let rename = |metric: &mut Metric| match metric {
        Metric::Window { function, .. } | Metric::Vector { function, .. } if function == from => {
            to.clone_into(function);
        }
        _ => {}
    };
    edited(ask, |query| query.each_metric(&mut { rename }))
}

/// Replaces `approx_topk` by `topk`.
pub fn with_exact_ranks(ask: &Ask) -> Option<Ask> {
    with_function(ask, "approx_topk", "topk")
}

/// Replaces `rate_counter` by another function over the same values.
pub fn without_rate_counter(ask: &Ask) -> Option<Ask> {
    with_function(ask, "rate_counter", "stddev_over_time")
}

/// Returns whether Loki splits an `avg_over_time` into two functions: if it is grouped, or labels were
/// removed.
pub fn has_parted_average(ask: &Ask) -> bool {
    let mut found = false;
    if let Some(query) = &ask.query {
        query.clone().each_metric(&mut |metric| {
            if let Metric::Window { function, grouping, log, .. } = metric
                && function == "avg_over_time"
            {
                let removes = ["| drop", "| keep", "| label_format"];
                let removed = |stage: &String| removes.iter().any(|word| stage.starts_with(word));
                found |= grouping.is_some() || log.stages.iter().any(removed);
            }
        });
    }
    found
}

/// Replaces `avg_over_time` by another function over the same values.
pub fn without_average(ask: &Ask) -> Option<Ask> {
    with_function(ask, "avg_over_time", "max_over_time")
}

/// Returns whether a query has a grouped `avg` over a sum of unwrapped values.
pub fn averages_sums(ask: &Ask) -> bool {
    let mut found = false;
    let mut sums = |metric: &mut Metric| {
        if let Metric::Window { function, unwrap: Some(_), .. } = metric {
            found |= matches!(function.as_str(), "sum_over_time" | "rate");
        }
    };
    if let Some(query) = &ask.query {
        query.clone().each_metric(&mut |metric| {
            if let Metric::Vector { function, grouping: Some(_), inner, .. } = metric
                && function == "avg"
            {
                Query::Metric((**inner).clone()).each_metric(&mut sums);
            }
        });
    }
    found
}

/// Replaces `avg` by another function over the same series.
pub fn without_vector_average(ask: &Ask) -> Option<Ask> {
    with_function(ask, "avg", "max")
}

/// Removes `line_format`.
pub fn without_line_formats(ask: &Ask) -> Option<Ask> {
    without(ask, |part| part.starts_with("| line_format"))
}

/// Replaces `topk` and `bottomk` by their arguments.
pub fn without_ranks(ask: &Ask) -> Option<Ask> {
    let unwrapped = |metric: &mut Metric| {
        if let Metric::Vector { function, inner, .. } = metric
            && (function.ends_with("topk") || function == "bottomk")
        {
            *metric = (**inner).clone();
        }
    };
    edited(ask, |query| query.each_metric(&mut { unwrapped }))
}

/// Drops empty values of all labels that can have one.
pub fn without_empty_labels(ask: &Ask) -> Option<Ask> {
    let parts = parts(ask);
    let mut names: Vec<&str> =
        parts.iter().flat_map(|stage| named(stage)).chain(NAMES.iter().copied()).collect();
    names.retain(|name| *name != "_" && !name.starts_with("__"));
    names.sort_unstable();
    names.dedup();
    let drop = names.iter().fold(String::new(), |text, name| text + ", " + name + "=\"\"");
    edited(ask, |query| {
        query.each_log(&mut |log| {
            log.stages.iter_mut().for_each(|stage| *stage = stage.replace(" --keep-empty", ""));
            log.stages.push(format!("| drop {}", &drop[2..]));
        });
    })
}

/// Returns the names between angle brackets: those of patterns and of groups in expressions.
fn named(stage: &str) -> impl Iterator<Item = &str> {
    let word = |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
    stage.split('<').skip(1).filter_map(|text| text.split_once('>').map(|(name, _)| name)).filter(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Shape;
    use crate::grammar::{Log, Unwrap};

    fn ask(function: &str, stages: &[&str], filters: &[&str]) -> Ask {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        let window = Metric::Window {
            function: function.to_owned(),
            parameter: None,
            log: Log { matchers: owned(&["a=\"b\""]), stages: owned(stages) },
            unwrap: Some(Unwrap { what: "n".to_owned(), filters: owned(filters) }),
            range: "[1m]".to_owned(),
            early_range: false,
            grouping: None,
        };
        let around = Metric::Vector {
            function: "topk".to_owned(),
            parameter: Some("1".to_owned()),
            inner: Box::new(window),
            grouping: None,
            early_grouping: false,
        };
        Ask::new("query", Shape::Query).with("interval", "1s").with_query(Query::Metric(around))
    }

    fn text(ask: Option<Ask>) -> String {
        ask.map(|ask| ask.query_text().to_owned()).unwrap_or_default()
    }

    #[test]
    fn causes_are_removed_wherever_they_occur() {
        let line = ask("rate", &["|= ip(\"::1\") or \"x\"", "| ip = ip(\"::1\")", "|= \"a\" or \"\""], &[]);
        let expected = "topk(1, rate({a=\"b\"} | ip = ip(\"::1\") |= \"a\" or \"\" | unwrap n [1m]))";
        assert_eq!(text(without_address_or_other(&line)), expected);
        let expected = "topk(1, rate({a=\"b\"} |= \"a\" or \"\" | unwrap n [1m]))";
        assert_eq!(text(without_address_of_colons(&line)), expected);
        assert!(!text(without_any_line(&line)).contains("or \"\""));
        let label = ask("rate", &["| x =~ \"\" or y = \"1\""], &["z !~ ``", "z = \"1\""]);
        let expected = "topk(1, rate({a=\"b\"} | unwrap n | z = \"1\" [1m]))";
        assert_eq!(text(without_empty_expressions(&label)), expected);
        assert_eq!(text(without_any_line(&label)), "", "without a construct to remove there is no control");
        assert!(without_interval(&line).is_some_and(|ask| ask.parameter("interval").is_none()));
    }

    #[test]
    fn averages_of_sums_are_found_and_replaced() {
        let average = |function: &str, grouping: Option<&str>| {
            let Some(Query::Metric(inner)) = ask(function, &["| line_format `x`"], &[]).query else {
                panic!()
            };
            let around = Metric::Vector {
                function: "avg".to_owned(),
                parameter: None,
                inner: Box::new(inner),
                grouping: grouping.map(str::to_owned),
                early_grouping: true,
            };
            Ask::new("query", Shape::Query).with_query(Query::Metric(around))
        };
        let by_label = average("rate", Some("by (n)"));
        assert!(
            averages_sums(&by_label) && text(without_vector_average(&by_label)).starts_with("max by (n) (")
        );
        assert!(
            !averages_sums(&average("rate", None))
                && !averages_sums(&average("max_over_time", Some("by (n)")))
        );
        assert!(!text(without_line_formats(&by_label)).contains("line_format"));
    }

    #[test]
    fn functions_and_parsers_are_replaced() {
        let counter = ask("rate_counter", &["| logfmt --strict new=\"n\""], &[]);
        assert!(text(without_rate_counter(&counter)).starts_with("topk(1, stddev_over_time("));
        assert!(text(without_ranks(&counter)).starts_with("rate_counter("));
        assert!(text(without_renamed_keys(&counter)).contains("| logfmt --strict | unwrap"));
        assert_eq!(text(with_exact_ranks(&counter)), "");
        let empty = text(without_empty_labels(&ask(
            "rate",
            &["| pattern `<_> <rest>`", "| logfmt --keep-empty"],
            &[],
        )));
        assert!(
            empty.contains(", rest=\"\", ") && !empty.contains("--keep-empty") && !empty.contains(" _=\"\"")
        );
    }
}
