//! Random queries: trees that print themselves as LogQL, so that a failing query can be reduced.
//!
//! [`tree`] defines the structure, [`words`] the vocabulary of the corpus. [`logs`], [`metrics`] and
//! [`templates`] generate queries, and [`spoil`] generates invalid ones.

mod logs;
mod metrics;
mod spoil;
mod templates;
mod tree;
mod words;

pub use logs::log_query;
pub use metrics::metric_query;
pub use spoil::spoilt;
pub use tree::{Log, Metric, Query, Unwrap};
pub use words::NAMES;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::random::Random;

    #[test]
    fn every_construct_of_the_language_occurs() {
        let mut text = String::new();
        for index in 0..3000 {
            let mut random = Random::fork(1, index);
            let query = if random.chance(50) {
                Query::Log(log_query(&mut random))
            } else {
                Query::Metric(metric_query(&mut random, 3))
            };
            text += &query.to_string();
            text.push('\n');
        }
        for word in [
            "|=",
            "!=",
            "|~",
            "!~",
            "|>",
            "!>",
            " or ",
            "ip(",
            "| json",
            "| logfmt",
            "--strict",
            "--keep-empty",
            "| regexp",
            "| pattern",
            "| unpack",
            "| line_format",
            "| label_format",
            "| decolorize",
            "| drop",
            "| keep",
            "| unwrap",
            "duration(",
            "duration_seconds(",
            "bytes(",
            "count_over_time(",
            "rate(",
            "rate_counter(",
            "bytes_over_time(",
            "bytes_rate(",
            "avg_over_time(",
            "sum_over_time(",
            "min_over_time(",
            "max_over_time(",
            "stdvar_over_time(",
            "stddev_over_time(",
            "quantile_over_time(",
            "first_over_time(",
            "last_over_time(",
            "absent_over_time(",
            "sum",
            "avg",
            "count",
            "max",
            "min",
            "stddev",
            "stdvar",
            "topk",
            "bottomk",
            "approx_topk",
            "sort(",
            "sort_desc(",
            " by (",
            " without (",
            "offset",
            "bool",
            "on(",
            "ignoring(",
            "group_left",
            "group_right",
            "vector(",
            "label_replace(",
            " and ",
            " unless ",
            " ^ ",
            " % ",
            " == ",
            " >= ",
            "__line__",
            "printf",
            "if ",
            "range ",
            "#",
        ] {
            assert!(text.contains(word), "{word}");
        }
    }

    #[test]
    fn repeated_reduction_of_queries_ends() {
        for index in 0..300 {
            let mut random = Random::fork(2, index);
            let mut query = Query::Metric(metric_query(&mut random, 3));
            let mut seen = BTreeSet::new();
            while let Some(next) = query.smaller().into_iter().next() {
                assert!(next.to_string().len() < query.to_string().len(), "{next} from {query}");
                assert!(seen.insert(next.to_string()));
                query = next;
            }
        }
    }
}
