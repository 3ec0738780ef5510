//! Differences that are meant, or that are Loki's own indecision: each with its reason.
//!
//! A rule looks at the request, the difference and both answers, and explains as little as it can.
//! `docs/reference/loki-compatibility.md` is written from this table.

use sandur_bench::http::Answer;

use crate::ask::Ask;
use crate::compare::{Difference, Kind};

/// A difference with both answers.
pub struct Case<'a> {
    /// The request.
    pub ask: &'a Ask,
    /// How the answers differ.
    pub difference: &'a Difference,
    /// What Loki answers.
    pub loki: &'a Answer,
    /// What we answer.
    pub ours: &'a Answer,
}

/// A difference that is explained.
pub struct Rule {
    /// Short name, printed in reports.
    pub id: &'static str,
    /// What differs.
    pub what: &'static str,
    /// Why it is so.
    pub reason: &'static str,
    /// Whether this difference is that one.
    pub explains: fn(&Case<'_>) -> bool,
}

/// The rule that asks Loki again; [`crate::run`] applies it.
pub const VARIES: &str = "loki-varies";

const fn rule(
    id: &'static str,
    what: &'static str,
    reason: &'static str,
    explains: fn(&Case<'_>) -> bool,
) -> Rule {
    Rule { id, what, reason, explains }
}

/// Every rule.
pub const RULES: &[Rule] = &[
    rule(
        VARIES,
        "Loki's first answer; asked up to six times more, it gives ours.",
        "Where Loki goes through a hash map, its answer is one of several: which of equal values `topk` \
         keeps, which of several errors is told.",
        |_| false,
    ),
    rule(
        "which-error",
        "Both refuse a metric query with a pipeline error and name different series or lines.",
        "One line with an error ends a metric query. Which one is met first depends on how lines are stored; \
         Loki picks one out of a hash map, we take the first that a worker meets.",
        |case| {
            let is_one =
                |answer: &Answer| answer.status == 400 && answer.body.starts_with(b"pipeline error: '");
            case.difference.kind == Kind::ErrorText && is_one(case.loki) && is_one(case.ours)
        },
    ),
    rule(
        "rounding",
        "Numbers differ by less than a share of 1e-9.",
        "Sums of floating-point numbers depend on the order of summation, and Loki's order follows its \
         chunks and its hash maps: it differs between two of its own answers.",
        |case| case.difference.kind == Kind::Rounding,
    ),
];

/// The rule that explains a difference.
pub fn explanation(case: &Case<'_>) -> Option<&'static Rule> {
    RULES.iter().find(|rule| (rule.explains)(case))
}

/// The rules as a table for the page on compatibility.
pub fn table() -> String {
    let mut page = String::from("| rule | what differs | why |\n|---|---|---|\n");
    for rule in RULES {
        page += &format!("| `{}` | {} | {} |\n", rule.id, rule.what, rule.reason);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_lists_every_rule() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/loki-compatibility.md");
        let page = std::fs::read_to_string(path).unwrap();
        let remedy =
            "stale: replace the table by the output of `cargo run -p sandur-differential -- --rules`";
        assert!(page.contains(&table()), "{remedy}");
    }
}
