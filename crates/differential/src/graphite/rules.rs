//! The intended differences, each with its reason.
//!
//! A rule checks the request, the difference and both answers, and explains as little as possible.

use std::fmt::Write as _;

use super::answer::{Answer, Difference, Kind};
use super::ask::Ask;

/// A difference with its request and answers.
pub struct Case<'a> {
    /// The request.
    pub ask: &'a Ask,
    /// The text of its targets.
    pub text: String,
    /// How the answers differ.
    pub difference: &'a Difference,
    /// graphite-web's answer.
    pub theirs: &'a Answer,
    /// Our answer.
    pub ours: &'a Answer,
}

/// An explained difference.
pub struct Rule {
    /// A short name, printed in reports.
    pub id: &'static str,
    /// What differs.
    pub what: &'static str,
    /// The reason of the difference.
    pub reason: &'static str,
    /// Returns whether the rule explains a difference.
    pub explains: fn(&Case<'_>) -> bool,
}

/// Functions that evaluate their first argument again, at other times.
const AGAIN: &[&str] = &[
    "moving",
    "exponentialMovingAverage",
    "hitcount",
    "holtWinters",
    "timeShift",
    "timeStack",
    "linearRegression",
    "smartSummarize",
];

/// Functions whose values differ in their last digit, or overflow.
const NEAR: &[&str] = &["multiply", "linearRegression", "holtWinters", "stdev", "stddev"];

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule {
        id: "pipes",
        what: "a target with `|` inside a function that evaluates its argument again (`movingAverage`, \
               `timeShift`)",
        reason: "graphite-web removes the calls after `|` from the target during the first evaluation, so \
                 they are missing in the second one",
        explains: |case| case.text.contains('|') && mentions(case, AGAIN),
    },
    Rule {
        id: "named-series",
        what: "series in a keyword argument (`asPercent(a, total=b)`)",
        reason: "graphite-web does not fetch them",
        explains: |case| mentions(case, &["total=", "referenceSeries="]),
    },
    Rule {
        id: "unknown-tags",
        what: "`events` with a tag that no event has",
        reason: "graphite-web removes such a tag from the condition, so a misspelt tag finds the events of \
                 the others; Sandur finds none",
        explains: |case| case.text.contains("events(") && mentions(case, &["none", "depl"]),
    },
    Rule {
        id: "no-such-node",
        what: "`applyByNode` with a node that a path does not have",
        reason: "graphite-web's next version rejects it, and Sandur does too",
        explains: |case| case.text.contains("applyByNode") && refusal(case).contains(" has no node "),
    },
    Rule {
        id: "shared-tags",
        what: "tags of the two series of `areaBetween` and of `holtWintersConfidenceBands`",
        reason: "in graphite-web both share one set of tags, so a tag that a later function adds to one \
                 appears in the other too",
        explains: |case| {
            let pairs = ["areaBetween", "holtWintersConfidenceArea", "holtWintersConfidenceBands"];
            mentions(case, &pairs) && case.difference.kind == Kind::Tags
        },
    },
    Rule {
        id: "first-place",
        what: "`compressPeriodicGaps` of a series whose first point has a value",
        reason: "graphite-web 1.1.10 ignores the first point, its next version does not",
        explains: |case| case.text.contains("compressPeriodicGaps"),
    },
    Rule {
        id: "no-length",
        what: "intervals and windows whose length is zero or negative",
        reason: "graphite-web fails or returns no series, depending on details; Sandur rejects them",
        explains: |case| {
            ["it must be longer than 0", "a window is a number of points"]
                .iter()
                .any(|why| refusal(case).contains(why))
        },
    },
    Rule {
        id: "no-series-to-fit",
        what: "an invalid argument of a function that gets no series",
        reason: "graphite-web does not check the argument if there are no series to compute with",
        explains: |case| {
            // With series graphite-web raises an exception in these cases.
            let always = ["needs a number of points", "has a group that"];
            let has_none = matches!(case.theirs, Answer::Rows(rows) if rows.is_empty());
            let why = refusal(case);
            always.iter().any(|reason| why.contains(reason))
                || has_none && why.contains("value specified for function")
        },
    },
    Rule {
        id: "another-type",
        what: "series or `None` as an argument that must be a number or a text",
        reason: "graphite-web computes as far as Python allows (`None` is not a node of any path); Sandur \
                 rejects it",
        explains: |case| refusal(case).contains("cannot take what parameter") || case.text.contains("None"),
    },
    Rule {
        id: "order-of-nearly-equal",
        what: "which series `highest`, `lowest` and `sortBy` put first if their values are nearly equal, or \
               are not numbers (after `multiply`)",
        reason: "sums of differences differ in their last digit, and NaN has no order",
        explains: |case| {
            let is_ordered = mentions(case, &["highest", "lowest", "sortBy", "mostDeviant"]);
            let is_near = mentions(case, NEAR);
            case.difference.kind == Kind::Names && is_ordered && is_near
        },
    },
    Rule {
        id: "whole-numbers",
        what: "integers among other numbers, or very large integers: in names (`legendValue`, `aliasQuery`), \
               and in `stdev` of times",
        reason: "Python can store integers and other numbers in one series, and adds integers exactly; in \
                 Sandur a series has one type, and sums are doubles",
        explains: |case| {
            let has_whole = ["holtWintersAberration", "identity(", "time(", "timeFunction("];
            let begins_whole = ["exponentialMovingAverage("];
            let is_named = mentions(case, &["legendValue", "cactiStyle", "aliasQuery"])
                && case.difference.kind == Kind::Names;
            is_named && mentions(case, &begins_whole)
                || mentions(case, &has_whole) && (is_named || mentions(case, &["stdev("]))
        },
    },
    Rule {
        id: "summer-time",
        what: "`timeShift` with `alignDst` in a request with a time zone (`tz`)",
        reason: "graphite-web uses the daylight saving time of its own time zone, which is UTC in these \
                 runs; Sandur uses that of the request's time zone",
        explains: |case| {
            let has_zone = case.ask.others.iter().any(|(name, _)| *name == "tz");
            has_zone && mentions(case, &["timeShift("]) && refusal(case).is_empty()
        },
    },
];

fn mentions(case: &Case<'_>, parts: &[&str]) -> bool {
    parts.iter().any(|part| case.text.contains(part))
}

/// Returns why we reject a request that graphite-web answers.
fn refusal<'a>(case: &Case<'a>) -> &'a str {
    match (case.theirs, case.ours) {
        (Answer::Rows(_), Answer::Refused(why)) => why,
        _ => "",
    }
}

/// Returns the rules as a table in Markdown.
pub fn table() -> String {
    let mut out = String::from("| rule | what differs | why |\n|---|---|---|\n");
    for rule in RULES {
        let _ = writeln!(out, "| `{}` | {} | {} |", rule.id, rule.what, rule.reason);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_differences_has_every_rule() {
        let page = include_str!("../../../../docs/reference/graphite-differences.md");
        assert!(page.contains(&table()), "the page must contain:\n{}", table());
    }
}
