//! Draws the cases of a recording.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
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

/// After this many draws without a case, the recorder stops preferring rare parts of the language; after as
/// many again, it ends. A part that occurs in one query of 2,000 is missed with a probability of 0.005 %.
const IDLE_MAX: usize = 20_000;
/// After this many cases in succession without an answer, the original no longer runs.
const UNANSWERED_MAX: usize = 10;
/// The reason why a case without an answer is not recorded.
pub const UNANSWERED: &str = "no answer";
/// After how many further cases the progress is printed.
const PRINTED_EVERY: usize = 250;

/// Draws cases until the choice is complete or `tries` cases were drawn. `next` returns the query of a
/// case and its answers, or nothing if the choice does not want the query.
pub fn draw(
    choice: &mut Choice,
    tries: u64,
    mut next: impl FnMut(u64, &Choice) -> Result<Option<(String, Candidate)>>,
) -> Result<Drawn> {
    let mut drawn = Drawn::default();
    let (mut idle, mut unanswered) = (0, 0);
    for index in 0..tries {
        if choice.is_complete() {
            break;
        }
        idle += 1;
        if idle > IDLE_MAX {
            println!("  draw {index}: no case among the last {IDLE_MAX} draws");
            if !choice.stop_seeking() {
                break;
            }
            idle = 0;
        }
        let Some((query, candidate)) = next(index, choice)? else {
            *drawn.dropped.entry("without a rare part of the language").or_default() += 1;
            continue;
        };
        let is_unanswered = matches!(&candidate, Candidate::Dropped(reason) if *reason == UNANSWERED);
        unanswered = if is_unanswered { unanswered + 1 } else { 0 };
        if unanswered > UNANSWERED_MAX {
            bail!("no answer to {unanswered} cases in succession: does the original still run?");
        }
        match candidate {
            Candidate::Case(case, outcome) if choice.takes(&query, outcome) => {
                drawn.cases.push(case);
                idle = 0;
                if drawn.cases.len() % PRINTED_EVERY == 0 {
                    println!("  {} cases of {} draws", drawn.cases.len(), index + 1);
                }
                continue;
            }
            Candidate::Case(..) => *drawn.dropped.entry("enough of its outcome").or_default() += 1,
            Candidate::Explained(rule) => *drawn.explained.entry(rule).or_default() += 1,
            Candidate::Dropped(reason) => *drawn.dropped.entry(reason).or_default() += 1,
            Candidate::Finding(detail) => {
                println!("case {index}: {detail}\n");
                drawn.findings += 1;
            }
        }
        choice.misses(&query);
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::recorded::choice::Outcome;

    fn choice(wanted: usize) -> Choice {
        Choice::new(wanted, ["rare(", "common("].map(str::to_owned), &[])
    }

    fn answered(query: &str) -> Option<(String, Candidate)> {
        Some((query.to_owned(), Candidate::Case(json!(query), Outcome::Answer)))
    }

    #[test]
    fn a_part_that_is_never_drawn_does_not_hold_up_the_recorder() {
        let mut choice = choice(100);
        let next = |_, choice: &Choice| Ok(choice.may_take("common(").then(|| answered("common(")).flatten());
        let drawn = draw(&mut choice, u64::MAX, next).unwrap();
        assert_eq!(drawn.cases.len(), 100);
        assert!(choice.report().is_err(), "the missing part is reported");
    }

    #[test]
    fn cases_that_are_never_recorded_end_the_recorder() {
        let dropped = |_, _: &Choice| Ok(Some(("rare(".to_owned(), Candidate::Dropped("long answer"))));
        let drawn = draw(&mut choice(100), u64::MAX, dropped).unwrap();
        assert!(drawn.cases.is_empty() && drawn.dropped["long answer"] >= IDLE_MAX);
        let silent = |_, _: &Choice| Ok(Some(("rare(".to_owned(), Candidate::Dropped(UNANSWERED))));
        assert!(draw(&mut choice(100), u64::MAX, silent).is_err());
    }
}
