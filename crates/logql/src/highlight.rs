//! Finds the parts of a line that the line filters of a query match, to highlight them.

use std::ops::Range;

use sandur_model::group_span;

use crate::ast::Expr;
use crate::go_regex::each_match;
use crate::line_test::LineTest;
use crate::parser::parse;

/// The texts and regular expressions that the positive filters of a log query search for.
#[derive(Default)]
pub struct Highlights {
    tests: Vec<LineTest>,
}

impl Highlights {
    /// The highlights of a query; empty for a metric query or an invalid one.
    pub fn of(query: &str) -> Self {
        let Ok(Expr::Log(log)) = parse(query) else { return Self::default() };
        let filters = log.stages.iter().filter_map(|stage| stage.line_filter());
        let wanted = filters.filter(|filter| !filter.negated).flat_map(|filter| filter.tests.clone());
        Self { tests: wanted.collect() }
    }

    /// The byte ranges of the matches in a line, in order and without overlaps.
    pub fn spans(&self, line: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for test in &self.tests {
            match test {
                LineTest::Literal(finder) => {
                    let length = finder.needle().len();
                    found.extend(finder.find_iter(line.as_bytes()).map(|at| at..at + length));
                }
                LineTest::Regex { regex, .. } => {
                    // A line whose search fails is shown without highlights.
                    _ = each_match(regex, line, 2, |slots| {
                        found.extend(group_span(slots, 0).map(|(from, to)| from..to));
                        Ok(())
                    });
                }
                // A pattern matches the complete line, and an address has many spellings, so neither is
                // highlighted.
                LineTest::Pattern(_) | LineTest::Ip(_) => {}
            }
        }
        found.retain(|span| {
            !span.is_empty() && line.is_char_boundary(span.start) && line.is_char_boundary(span.end)
        });
        joined(found)
    }
}

fn joined(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.sort_by_key(|span| span.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match apart.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => apart.push(span),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(query: &str, line: &str) -> String {
        let (mut out, mut at) = (String::new(), 0);
        for span in Highlights::of(query).spans(line) {
            out += &format!("{}[{}]", &line[at..span.start], &line[span.clone()]);
            at = span.end;
        }
        out + &line[at..]
    }

    #[test]
    fn matches_of_line_filters_are_highlighted() {
        for (query, line, expected) in [
            (r#"{a="b"} |= "err""#, "err: an err", "[err]: an [err]"),
            (r#"{a="b"} |= "one" or "two" |~ "t.."#, "one two", "one two"), // invalid query: no highlights
            (r#"{a="b"} |= "one" or "two" |~ "t..""#, "one two", "[one] [two]"),
            (r#"{a="b"} |~ "(?i)ERR" |~ "ror""#, "error", "[error]"),
            (r#"{a="b"} != "err" !~ "r""#, "no rest", "no rest"),
            (r#"{a="b"} |= "" |~ "x*""#, "axxb", "a[xx]b"),
            (r#"{a="b"} | json |= "ü" | line_format "x""#, "müde", "m[ü]de"),
            (r#"{a="b"} |> "<_>x""#, "abx", "abx"),
            (r#"count_over_time({a="b"} |= "err" [5m])"#, "err", "err"),
        ] {
            assert_eq!(marked(query, line), expected, "{query}");
        }
    }
}
