//! Control requests: the same request without what a rule is about.
//!
//! Some differences cannot be told from others by the answers. A rule for these names a control, and explains
//! only when both servers answer the control alike: then what was left out is the cause. There is no control
//! for a query that is text only, since nothing can be left out of it safely.

use sandur_bench::http::Answer;
use serde_json::Value;

use crate::ask::Ask;
use crate::corpus::{HALF_NS, MIDDLE_NS};
use crate::grammar::{Metric, NAMES, Query};

/// How line filters begin.
const LINE_FILTERS: [&str; 6] = ["|=", "!=", "|~", "!~", "|>", "!>"];

/// Whether a stage is a line filter.
pub fn filters_lines(stage: &str) -> bool {
    LINE_FILTERS.iter().any(|operator| stage.starts_with(operator))
}

/// Whether a line filter looks for an address or for something else.
pub fn address_or_other(stage: &str) -> bool {
    filters_lines(stage) && stage.contains("ip(") && stage.contains(" or ")
}

/// Whether a filter looks for an address that begins with colons.
pub fn address_of_colons(part: &str) -> bool {
    part.contains("ip(\"::") || part.contains("ip(`::")
}

/// Whether a line filter has an alternative that every line has.
pub fn any_line_or_other(stage: &str) -> bool {
    let any = ["\"\"", "``", "\".*\"", "`.*`"];
    let stands = |text: &&str| stage.contains(&format!("or {text}")) || stage.contains(&format!("{text} or"));
    filters_lines(stage) && any.iter().any(stands)
}

/// Whether a label filter has an empty expression.
pub fn empty_expression(filter: &str) -> bool {
    let empty = ["=~ \"\"", "!~ \"\"", "=~ ``", "!~ ``", "=~\"\"", "!~\"\"", "=~``", "!~``"];
    empty.iter().any(|text| filter.contains(text))
}

/// Whether `logfmt` takes labels from keys of other names.
pub fn renames_keys(stage: &str) -> bool {
    stage.starts_with("| logfmt") && stage.contains("=\"")
}

/// The stages and the filters behind `unwrap` of a query, if it is known as a tree.
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

/// Without the stages and filters that `is_cause` names.
fn without(ask: &Ask, is_cause: fn(&str) -> bool) -> Option<Ask> {
    edited(ask, |query| query.each_part(&mut |parts| parts.retain(|part| !is_cause(part))))
}

/// Without line filters for addresses or something else.
pub fn without_address_or_other(ask: &Ask) -> Option<Ask> {
    without(ask, address_or_other)
}

/// Without filters for addresses that begin with colons.
pub fn without_address_of_colons(ask: &Ask) -> Option<Ask> {
    without(ask, address_of_colons)
}

/// Without line filters that every line passes.
pub fn without_any_line(ask: &Ask) -> Option<Ask> {
    without(ask, any_line_or_other)
}

/// Without label filters with an empty expression.
pub fn without_empty_expressions(ask: &Ask) -> Option<Ask> {
    without(ask, empty_expression)
}

/// With `logfmt` for every key, under its own name.
pub fn without_renamed_keys(ask: &Ask) -> Option<Ask> {
    let plain = |stage: &mut String| {
        if renames_keys(stage) {
            let flags = stage.split(' ').filter(|word| word.starts_with("--"));
            *stage = flags.fold("| logfmt".to_owned(), |text, flag| text + " " + flag);
        }
    };
    edited(ask, |query| query.each_part(&mut |parts| parts.iter_mut().for_each(plain)))
}

/// Without the parameter `interval`.
pub fn without_interval(ask: &Ask) -> Option<Ask> {
    let mut other = ask.clone();
    other.parameters.retain(|(name, _)| name != "interval");
    Some(other)
}

/// With the query that we answered in place of the one that was asked.
pub fn formatted(ask: &Ask, ours: &Answer) -> Option<Ask> {
    let body: Value = serde_json::from_slice(&ours.body).ok()?;
    Some(ask.with_query(Query::Text(body.get("data")?.as_str()?.to_owned())))
}

/// About the whole time of the logs.
pub fn about_all_time(ask: &Ask) -> Option<Ask> {
    let mut other = ask.clone();
    other.parameters.retain(|(name, _)| name != "start" && name != "end");
    Some(other.with("start", MIDDLE_NS - HALF_NS).with("end", MIDDLE_NS + HALF_NS))
}

/// Without lines that have a field `__error__`.
pub fn without_error_fields(ask: &Ask) -> Option<Ask> {
    edited(ask, |query| query.each_log(&mut |log| log.stages.insert(0, "!= \"__error__=\"".to_owned())))
}

/// Without lines that have a number which no floating-point number holds.
pub fn without_huge_numbers(ask: &Ask) -> Option<Ask> {
    edited(ask, |query| query.each_log(&mut |log| log.stages.insert(0, "!= \"1e400\"".to_owned())))
}

/// Whether a template decodes base 64.
pub fn decodes_base64(part: &str) -> bool {
    part.contains("_format") && part.contains("b64dec")
}

/// With base 64 encoded in place of decoded.
pub fn without_base64(ask: &Ask) -> Option<Ask> {
    let encode = |part: &mut String| *part = part.replace("b64dec", "b64enc");
    edited(ask, |query| query.each_part(&mut |parts| parts.iter_mut().for_each(encode)))
}

/// Whether a label filter compares with a size in powers of two.
pub fn binary_size(part: &str) -> bool {
    !filters_lines(part) && part.contains("KiB")
}

/// With sizes in powers of ten.
pub fn without_binary_sizes(ask: &Ask) -> Option<Ask> {
    let decimal = |part: &mut String| *part = part.replace("KiB", "KB");
    edited(ask, |query| query.each_part(&mut |parts| parts.iter_mut().for_each(decimal)))
}

/// With another function in place of `from`.
fn with_function(ask: &Ask, from: &str, to: &str) -> Option<Ask> {
    let rename = |metric: &mut Metric| match metric {
        Metric::Window { function, .. } | Metric::Vector { function, .. } if function == from => {
            to.clone_into(function);
        }
        _ => {}
    };
    edited(ask, |query| query.each_metric(&mut { rename }))
}

/// With `topk` in place of `approx_topk`.
pub fn with_exact_ranks(ask: &Ask) -> Option<Ask> {
    with_function(ask, "approx_topk", "topk")
}

/// With another function over the same values in place of `rate_counter`.
pub fn without_rate_counter(ask: &Ask) -> Option<Ask> {
    with_function(ask, "rate_counter", "stddev_over_time")
}

/// Whether Loki makes two functions of an `avg_over_time`: where it is grouped, or labels were removed.
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

/// With another function over the same values in place of `avg_over_time`.
pub fn without_average(ask: &Ask) -> Option<Ask> {
    with_function(ask, "avg_over_time", "max_over_time")
}

/// Without `topk` and `bottomk` around what they choose from.
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

/// With labels that have no value dropped, all that can be without one.
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

/// Names that stand between angle brackets: those of patterns and of groups in expressions.
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
    fn causes_are_left_out_wherever_they_stand() {
        let line = ask("rate", &["|= ip(\"::1\") or \"x\"", "| ip = ip(\"::1\")", "|= \"a\" or \"\""], &[]);
        let expected = "topk(1, rate({a=\"b\"} | ip = ip(\"::1\") |= \"a\" or \"\" | unwrap n [1m]))";
        assert_eq!(text(without_address_or_other(&line)), expected);
        let expected = "topk(1, rate({a=\"b\"} |= \"a\" or \"\" | unwrap n [1m]))";
        assert_eq!(text(without_address_of_colons(&line)), expected);
        assert!(!text(without_any_line(&line)).contains("or \"\""));
        let label = ask("rate", &["| x =~ \"\" or y = \"1\""], &["z !~ ``", "z = \"1\""]);
        let expected = "topk(1, rate({a=\"b\"} | unwrap n | z = \"1\" [1m]))";
        assert_eq!(text(without_empty_expressions(&label)), expected);
        assert_eq!(text(without_any_line(&label)), "", "nothing to leave out is no control");
        assert!(without_interval(&line).is_some_and(|ask| ask.parameter("interval").is_none()));
    }

    #[test]
    fn functions_and_parsers_are_exchanged() {
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
