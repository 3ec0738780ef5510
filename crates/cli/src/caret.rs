//! Shows a refused query: the server's message, the line of the query with a mark below the error, and
//! help.

use sandur_base::units::ByteSize;
use sandur_logql::{Conversion, Diagnosis, Expr};
use sandur_terminal::Failed;
use terminal_size::{Width, terminal_size_of};

use super::client::Refusal;
use super::escape::push_visible;
use super::language;
use super::paint::{Ink, Paint};

/// Columns if the width of the terminal is unknown.
const WIDTH_DEFAULT: usize = 100;
/// Minimum number of columns; narrower terminals are treated as this wide.
const WIDTH_MIN: usize = 20;
/// Indentation of the query.
const INDENT: &str = "  ";

/// Parts of messages about queries that are valid but refused, and what to do.
const WAYS_OUT: &[(&str, &str)] = &[
    (
        "not supported as an instant query",
        "omit --instant, or count: sum(count_over_time(.. [1h])); --promql selects metrics",
    ),
    ("only log selector is supported", "tail follows lines; `sandur query` answers queries of metrics"),
    ("the query time range exceeds the limit", "shorten the range with --since or --from and --to"),
    ("maximum of series", "group by fewer labels, or reduce the result with topk(10, ..)"),
    ("exceeded maximum resolution", "use a longer --step"),
    ("to a valid duration", "write durations like 30s, 5m or 1h"),
    ("too many outstanding requests", "try again later, or raise query.max_queued on the server"),
    ("deletion is not available", "the server's limits.deletion_mode allows it"),
    ("given id", "`sandur delete list` shows the requests"),
];

/// The message for a refused query.
pub fn explain(query: &str, refusal: Refusal) -> Failed {
    explain_any(Some(query), refusal)
}

/// The message for a refused request, which may have a query.
pub fn explain_any(query: Option<&str>, refusal: Refusal) -> Failed {
    let has_answer = refusal.status.is_some();
    let failed = Failed::from(refusal);
    if has_answer { with_mark(query, &failed) } else { failed }
}

/// The message with the query and a mark below the error, if the query is invalid.
pub fn with_mark(query: Option<&str>, failed: &Failed) -> Failed {
    let said = failed.message().trim_end();
    let known = WAYS_OUT.iter().find(|(words, _)| said.contains(words));
    let known = known.map(|(_, help)| (*help).to_owned());
    let known =
        known.or_else(|| conversion(query?, said)).map(|help| Diagnosis { span: None, help: Some(help) });
    let diagnosis = known.or_else(|| language::advice(query?)).or_else(|| sandur_logql::diagnose(query?));
    let Some(diagnosis) = diagnosis else { return failed.clone() };
    marked(query.unwrap_or_default(), failed, &diagnosis)
}

/// The conversion that an `unwrap` of values with units lacks, from the error of a number.
fn conversion(query: &str, said: &str) -> Option<String> {
    let (_, rest) = said.split_once("strconv.ParseFloat: parsing \\\"")?;
    let (value, _) = rest.split_once("\\\"")?;
    let Ok(Expr::Metric(metric)) = sandur_logql::parse(query) else { return None };
    let ranges = metric.range_aggregations();
    let unwrap = ranges.iter().filter_map(|range| range.unwrap.as_ref());
    let label = &unwrap.into_iter().find(|unwrap| unwrap.conversion == Conversion::Float)?.label;
    let function = if sandur_model::go_text::parse_go_duration(value).is_ok() {
        "duration"
    } else if value.parse::<ByteSize>().is_ok() {
        "bytes"
    } else {
        return None;
    };
    Some(format!("the value {value} has a unit: write `unwrap {function}({label})`"))
}

/// The message with the query and a mark at the span of the diagnosis.
pub fn marked(query: &str, failed: &Failed, diagnosis: &Diagnosis) -> Failed {
    let said = failed.message().trim_end();
    let width = terminal_size_of(std::io::stderr()).map_or(WIDTH_DEFAULT, |(Width(w), _)| usize::from(w));
    let drawn = draw(query, diagnosis, width.max(WIDTH_MIN), Paint::for_stderr());
    failed.clone().reworded(format!("{said}\n\n{drawn}"))
}

/// The line of the query with the error, a mark below it, and the help.
fn draw(query: &str, diagnosis: &Diagnosis, width: usize, paint: Paint) -> String {
    let mut out = String::new();
    if let Some(span) = diagnosis.span.as_ref().filter(|_| !query.trim().is_empty()) {
        let start = query[..span.start].rfind('\n').map_or(0, |n| n + 1);
        let end = query[span.start..].find('\n').map_or(query.len(), |n| span.start + n);
        let part = |from: usize, to: usize| {
            let mut shown = String::new();
            query[from..to].chars().for_each(|c| push_visible(&mut shown, c));
            shown
        };
        let wrong_end = span.end.min(end);
        let (before, wrong) = (part(start, span.start), part(span.start, wrong_end));
        let (line, mark) = window(&before, &wrong, &part(wrong_end, end), width - INDENT.len());
        out += &format!("{INDENT}{line}\n{INDENT}{}\n", paint.ink(Ink::Bad, &mark));
    }
    if let Some(help) = &diagnosis.help {
        out += &format!("{INDENT}{} {help}\n", paint.ink(Ink::Good, "help:"));
    }
    out.truncate(out.trim_end().len());
    out
}

/// The part of the line that fits, and the mark below the error.
fn window(before: &str, wrong: &str, after: &str, width: usize) -> (String, String) {
    let count = |text: &str| text.chars().count();
    let mut left = before.to_owned();
    // At most half of the width is used for the text before the error, unless the text after it is short.
    let room = width.saturating_sub(count(wrong) + count(after)).max(width / 2);
    if count(before) > room {
        let kept: Vec<char> = before.chars().rev().take(room.saturating_sub(1)).collect();
        left = format!("…{}", kept.iter().rev().collect::<String>());
    }
    let mut line: String = format!("{left}{wrong}{after}");
    if count(&line) > width {
        line = line.chars().take(width - 1).chain(['…']).collect();
    }
    let marks = count(wrong).clamp(1, width.saturating_sub(count(&left)).max(1));
    (line, format!("{}{}", " ".repeat(count(&left)), "^".repeat(marks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(query: &str, width: usize) -> String {
        draw(query, &sandur_logql::diagnose(query).unwrap(), width, Paint::none())
    }

    #[test]
    fn the_mark_is_below_the_error() {
        assert_eq!(
            drawn(r#"sum by (app) (rat({app="api"}[5m]))"#, 100),
            "  sum by (app) (rat({app=\"api\"}[5m]))\n                ^^^\n  help: did you mean `rate`?"
        );
        assert_eq!(
            drawn("{app=\"api\"}\n  |= \"ü\"\n  | jsn\n  | x=\"y\"", 100),
            "    | jsn\n      ^^^\n  help: did you mean `json`?"
        );
        assert_eq!(drawn("{app=\"a\"", 100), "  {app=\"a\"\n          ^\n  help: `}` is missing");
        assert_eq!(
            drawn("{a=\"b\"}\t|= \"\x1b[2J\" | jsn", 100),
            "  {a=\"b\"}\\t|= \"\\x1b[2J\" | jsn\n                          ^^^\n  help: did you mean `json`?"
        );
    }

    #[test]
    fn values_with_units_are_unwrapped_with_a_conversion() {
        let query = r#"sum(sum_over_time({app="api"} | json | unwrap took [5m]))"#;
        let said = |value: &str| {
            format!(
                "pipeline error: 'SampleExtractionErr' for series: \
                 '{{__error_details__=\"strconv.ParseFloat: parsing \\\"{value}\\\": invalid syntax\"}}'"
            )
        };
        let help = |value: &str| conversion(query, &said(value)).unwrap_or_default();
        assert!(help("70ms").ends_with("write `unwrap duration(took)`"), "{}", help("70ms"));
        assert!(help("7MB").ends_with("write `unwrap bytes(took)`"), "{}", help("7MB"));
        assert_eq!(help("x"), "");
    }

    #[test]
    fn long_queries_are_cut_around_the_mark() {
        let query = format!("{{app=\"api\"}} |= \"{}\" | jsn | x=\"{}\"", "a".repeat(80), "b".repeat(80));
        let text = drawn(&query, 40);
        assert_eq!(
            text,
            "  …aaaaaaaaaaaaaa\" | jsn | x=\"bbbbbbbbb…\n                     ^^^\n  \
             help: did you mean `json`?"
        );
        for width in 20..60 {
            for line in drawn(&query, width).lines().take(2) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}
