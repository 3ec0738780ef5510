//! Differences that are meant, each with its reason.
//!
//! A rule looks at the question, the difference and both answers, and explains as little as it can.

use super::answer::Answer;
use super::ask::Ask;
use super::compare::{Difference, Kind};

/// A difference with what led to it.
pub struct Case<'a> {
    /// The question.
    pub ask: &'a Ask,
    /// Its expression.
    pub text: String,
    /// How the answers differ.
    pub difference: &'a Difference,
    /// What Prometheus answers.
    pub theirs: &'a Answer,
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

/// Every rule.
pub const RULES: &[Rule] = &[Rule {
    id: "ties",
    what: "which series `topk`, `bottomk` and `limitk` choose among equal ones",
    reason: "Prometheus takes those that its storage gives first, in the order in which they were created",
    explains: |case| {
        let chooses = ["topk", "bottomk", "limitk"].iter().any(|name| case.text.contains(name));
        let is_choice = matches!(
            case.difference.kind,
            Kind::Series | Kind::Samples | Kind::Values | Kind::Warnings | Kind::Infos
        );
        chooses && is_choice
    },
}];

/// The rules as a table in markdown.
pub fn table() -> String {
    let mut text = "| rule | what differs | why |\n|---|---|---|\n".to_owned();
    for rule in RULES {
        text.push_str(&format!("| `{}` | {} | {} |\n", rule.id, rule.what, rule.reason));
    }
    text
}
