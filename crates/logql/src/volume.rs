//! The query for volumes by step: the bytes of lines of streams, summed by some labels.

use sandur_base::nesting::Nested;
use sandur_model::Matcher;

use crate::ast::{Expr, LogExpr, MetricExpr, RangeAggregation, VectorAggregation};
use crate::grouping::Grouping;
use crate::{range, vector};

/// Builds `sum by (labels) (bytes_over_time({matchers}[window]))`. Unlike a parsed query, it may select
/// every stream.
pub fn bytes_by_labels(matchers: Vec<Matcher>, labels: Vec<String>, window_ns: i64) -> Expr {
    let bytes = RangeAggregation {
        function: range::find("bytes_over_time").expect("it is in the table"),
        parameter: None,
        log: LogExpr { matchers, stages: Vec::new() },
        unwrap: None,
        range_ns: window_ns.max(1),
        offset_ns: 0,
        grouping: None,
    };
    let sum = VectorAggregation {
        function: vector::find("sum").expect("it is in the table"),
        parameter: None,
        inner: MetricExpr::Range(Box::new(bytes)),
        grouping: Some(Grouping { without: false, labels }),
    };
    Expr::Metric(MetricExpr::Vector(Nested::new(sum).expect("two levels are within every limit")))
}

#[cfg(test)]
mod tests {
    use sandur_model::MatchOp;

    use super::*;

    #[test]
    fn it_equals_the_parsed_query() {
        let matchers = vec![Matcher::new("app", MatchOp::Equal, "api").unwrap()];
        let made = bytes_by_labels(matchers, vec!["app".to_owned()], 60_000_000_000);
        let written = crate::parse(r#"sum by (app) (bytes_over_time({app="api"}[1m]))"#).unwrap();
        assert_eq!(made.to_string(), written.to_string());
    }
}
