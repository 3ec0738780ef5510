//! The parts of a query, each of which can be asked by itself, so that their costs can be compared.
//!
//! A part is a function, an aggregation, binary operators, a stage with all stages before it, or a selector.
//! Parts come in the order of the query's tree, a part before those that it contains. Numbers are no parts.
//!
//! **Bounds.** There are at most [`PARTS_MAX`] parts with at most [`BYTES_MAX`] bytes of text.

use sandur_model::go_text::format_prometheus_duration;

use crate::ast::{Chain, Expr, LogExpr, MetricExpr, RangeAggregation, offset_text};
use crate::grouping::Grouping;

/// The most parts of a query.
pub const PARTS_MAX: usize = 60;
/// The most bytes of the texts of all parts.
const BYTES_MAX: usize = 1 << 20;

/// What the query [`QueryPart::counting`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Lines that pass.
    Lines,
    /// Series of the result.
    Series,
}

/// A part of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryPart {
    /// How many parts contain it.
    pub depth: usize,
    /// What it does: `sum by (app)`, `rate [5m]`, `| json`, a selector.
    pub title: String,
    /// The part as a query.
    pub text: String,
    /// A query for one instant that does the work of the part and returns one number.
    pub counting: String,
    /// What that number is.
    pub counted: Counted,
}

/// The parts of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryParts {
    /// In the order of the tree.
    pub parts: Vec<QueryPart>,
    /// Whether there are more than the bounds allow.
    pub has_more: bool,
}

/// The parts of a query. Lines of a query without a function are counted over `range_ns` before the instant.
pub fn parts(expr: &Expr, range_ns: i64) -> QueryParts {
    let mut listing = Listing { found: QueryParts::default(), bytes: 0 };
    match expr {
        Expr::Log(log) => listing.log(log, (range_ns, 0), 0),
        Expr::Metric(metric) => listing.metric(metric, 0),
    }
    listing.found
}

struct Listing {
    found: QueryParts,
    bytes: usize,
}

impl Listing {
    /// Adds a part if there is room.
    fn add(&mut self, depth: usize, title: String, text: String, counted: (Counted, String)) {
        self.bytes += title.len() + text.len() + counted.1.len();
        if self.found.parts.len() >= PARTS_MAX || self.bytes > BYTES_MAX {
            self.found.has_more = true;
            return;
        }
        let (counted, counting) = counted;
        self.found.parts.push(QueryPart { depth, title, text, counting, counted });
    }

    fn metric(&mut self, metric: &MetricExpr, depth: usize) {
        if self.found.has_more {
            return;
        }
        let title = match metric {
            MetricExpr::Range(range) => of_range(range),
            MetricExpr::Vector(vector) => {
                vector.function.name.to_owned() + &of_grouping(vector.grouping.as_ref())
            }
            MetricExpr::Chain(chain) => of_chain(chain),
            MetricExpr::LabelReplace(_) => "label_replace".to_owned(),
            MetricExpr::Literal(_) | MetricExpr::VectorOf(_) => return,
        };
        let text = metric.to_string();
        let counting = format!("count({text})");
        self.add(depth, title, text, (Counted::Series, counting));
        match metric {
            MetricExpr::Range(range) => self.log(&range.log, (range.range_ns, range.offset_ns), depth + 1),
            MetricExpr::Vector(vector) => self.metric(&vector.inner, depth + 1),
            MetricExpr::LabelReplace(replace) => self.metric(&replace.inner, depth + 1),
            MetricExpr::Chain(chain) => {
                self.metric(&chain.first, depth + 1);
                chain.links.iter().for_each(|link| self.metric(&link.right, depth + 1));
            }
            MetricExpr::Literal(_) | MetricExpr::VectorOf(_) => {}
        }
    }

    /// The stages from the last to the first one, and the selector.
    fn log(&mut self, log: &LogExpr, (range_ns, offset_ns): (i64, i64), depth: usize) {
        let range = format_prometheus_duration(range_ns);
        let offset = match offset_ns {
            0 => String::new(),
            offset_ns => format!(" offset {}", offset_text(offset_ns)),
        };
        for (below, number) in (0..=log.stages.len()).rev().enumerate() {
            if self.found.has_more {
                return;
            }
            let part = LogExpr { matchers: log.matchers.clone(), stages: log.stages[..number].to_vec() };
            let text = part.to_string();
            let title = part.stages.last().map_or_else(|| text.clone(), |stage| stage.to_string());
            let counting = format!("sum(count_over_time({text} [{range}]{offset}))");
            self.add(depth + below, title, text, (Counted::Lines, counting));
        }
    }
}

fn of_range(range: &RangeAggregation) -> String {
    let unwrap = range.unwrap.iter().map(|unwrap| format!(" of {}", unwrap.label)).collect::<String>();
    let length = format_prometheus_duration(range.range_ns);
    format!("{}{unwrap} [{length}]{}", range.function.name, of_grouping(range.grouping.as_ref()))
}

fn of_grouping(grouping: Option<&Grouping>) -> String {
    grouping.map_or_else(String::new, |grouping| {
        let word = if grouping.without { "without" } else { "by" };
        format!(" {word} ({})", grouping.labels.join(", "))
    })
}

/// The operators of a chain, each once.
fn of_chain(chain: &Chain) -> String {
    let mut operators: Vec<&str> = Vec::new();
    for link in &chain.links {
        if !operators.contains(&link.op.as_str()) {
            operators.push(link.op.as_str());
        }
    }
    operators.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3_600_000_000_000;

    fn listed(query: &str) -> QueryParts {
        parts(&crate::parse(query).unwrap(), HOUR_NS)
    }

    fn shown(query: &str) -> Vec<String> {
        listed(query).parts.iter().map(|part| format!("{}{}", " ".repeat(part.depth), part.title)).collect()
    }

    #[test]
    fn parts_come_in_the_order_of_the_tree() {
        let query = r#"sum by (app) (rate({a="b"} |= "x" | json | s >= 500 [5m] offset 1h)) / 2
            > quantile_over_time(0.9, {c="d"} | unwrap bytes(size) [1m]) by (app)"#;
        assert_eq!(
            shown(query),
            [
                "/ >",
                " sum by (app)",
                "  rate [5m]",
                "   | s>=500",
                "    | json",
                "     |= \"x\"",
                "      {a=\"b\"}",
                " quantile_over_time of size [1m] by (app)",
                "  {c=\"d\"}",
            ]
        );
        assert_eq!(shown(r#"{a="b"} | logfmt"#), ["| logfmt", " {a=\"b\"}"]);
        assert!(shown("1 + 1").len() <= 1);
    }

    #[test]
    fn each_part_and_its_count_is_a_query() {
        let query = r#"label_replace(
                topk(3, rate({a="b"} != "x" | json | unwrap d [5m] offset 90s)), "a", "$1", "b", "(.*)")
            + on (a) group_left sum(count_over_time({a="b"} | line_format "{{.x}}" [1h]))"#;
        let found = listed(query);
        assert!(found.parts.len() > 8 && !found.has_more);
        for QueryPart { text, counting, .. } in &found.parts {
            crate::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            crate::parse(counting).unwrap_or_else(|error| panic!("{counting}: {error}"));
        }
        let lines = &found.parts.iter().find(|part| part.title == "| json").unwrap();
        assert_eq!(lines.counting, r#"sum(count_over_time({a="b"} != "x" | json [5m] offset 1m30s))"#);
        assert_eq!(lines.counted, Counted::Lines);
        let last = listed(r#"{a="b"}"#);
        assert_eq!(last.parts[0].counting, r#"sum(count_over_time({a="b"} [1h]))"#);
    }

    #[test]
    fn parts_and_their_text_are_bounded() {
        let filters = |number: usize, bytes: usize| {
            (0..number).map(|_| format!(" |= \"{}\"", "x".repeat(bytes))).collect::<String>()
        };
        let many = listed(&format!(r#"{{a="b"}}{}"#, filters(100, 1)));
        assert_eq!((many.parts.len(), many.has_more), (PARTS_MAX, true));
        let long = listed(&format!(r#"{{a="b"}}{}"#, filters(40, 2_500)));
        assert!(long.has_more && !long.parts.is_empty() && long.parts.len() < 40);
    }
}
