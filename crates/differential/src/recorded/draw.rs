//! Draws the cases of a recording.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::Value;

use super::choice::{Candidate, Choice};

/// The cases that were drawn.
#[derive(Default)]
pub struct Drawn {
    /// Those to record.
    pub cases: Vec<Value>,
    /// Number of those that are not recorded because a rule explains a difference, by rule.
    pub explained: BTreeMap<&'static str, usize>,
    /// Number of those that are not recorded for another reason, by reason.
    pub dropped: BTreeMap<&'static str, usize>,
    /// Number of differences that no rule explains. Each was printed.
    pub findings: usize,
}

/// Draws cases until the choice is complete or `tries` cases were drawn. `next` returns the query of a
/// case and its answers, or nothing if the choice does not want the query.
pub fn draw(
    choice: &mut Choice,
    tries: u64,
    mut next: impl FnMut(u64, &Choice) -> Result<Option<(String, Candidate)>>,
) -> Result<Drawn> {
    let mut drawn = Drawn::default();
    for index in 0..tries {
        if choice.is_complete() {
            break;
        }
        let Some((query, candidate)) = next(index, choice)? else { continue };
        match candidate {
            Candidate::Case(case, outcome) if choice.takes(&query, outcome) => drawn.cases.push(case),
            Candidate::Case(..) => *drawn.dropped.entry("enough of its outcome").or_default() += 1,
            Candidate::Explained(rule) => *drawn.explained.entry(rule).or_default() += 1,
            Candidate::Dropped(reason) => *drawn.dropped.entry(reason).or_default() += 1,
            Candidate::Finding(detail) => {
                println!("case {index}: {detail}\n");
                drawn.findings += 1;
            }
        }
    }
    Ok(drawn)
}
