//! A difference between two answers with its query, which the rules explain.

use super::answer::Answer;
use super::ask::Ask;
use super::compare::Difference;

/// A difference with its query and answers.
pub struct Case<'a> {
    /// The query.
    pub ask: &'a Ask,
    /// The text of its expression.
    pub text: String,
    /// How the answers differ.
    pub difference: &'a Difference,
    /// Prometheus's answer.
    pub theirs: &'a Answer,
    /// Our answer.
    pub ours: &'a Answer,
}
