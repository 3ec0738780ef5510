//! Decides which cases are recorded, so that every function and operator occurs often enough.

use std::fmt::{Debug, Display};

use anyhow::{Result, bail};

/// The share of the cases that are taken as they come, in percent. The others have a part of the
/// language that is rare among the cases so far.
const COMMON_PERCENT: usize = 70;
/// How often each part of the language shall occur.
const OFTEN: usize = 24;
/// A part is preferred if it occurs at most this many times more than the rarest part. A larger number
/// needs fewer draws, a smaller one spreads the cases more evenly.
const RARE_WITHIN: usize = 3;
/// A part is no longer preferred after this many cases in succession that have it and were not recorded:
/// a part of which one case in 30 can be recorded reaches this number with a probability of 0.01 %.
const MISSED_MAX: usize = 300;
/// The largest share of cases with an error and of cases with an empty answer, in percent each.
const ERRORS_PERCENT: usize = 8;
const EMPTY_PERCENT: usize = 4;

/// What the original answered to a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer with series or lines.
    Answer,
    /// An answer without series or lines.
    Empty,
    /// An error.
    Error,
}

/// A case that both answered in the same way, or why there is none.
pub enum Candidate {
    /// The case in the form of the file.
    Case(serde_json::Value, Outcome),
    /// The answers differ for the reason of this rule. The case is not recorded.
    Explained(&'static str),
    /// The case is not recorded, for another reason.
    Dropped(&'static str),
    /// The answers differ, and no rule explains why.
    Finding(String),
}

/// Describes a difference between two answers.
pub fn described(ask: &impl Display, kind: &impl Debug, detail: &str) -> String {
    format!("{ask}\n  {kind:?}: {detail}")
}

/// A part of a language, and how often it occurs.
struct Part {
    text: String,
    /// Number of recorded cases with an answer that have it.
    taken: usize,
    /// Number of cases that have it and were not recorded, since the last one that was.
    missed: usize,
    is_left_out: bool,
}

impl Part {
    fn is_sought(&self) -> bool {
        !self.is_left_out && self.taken < OFTEN && self.missed < MISSED_MAX
    }
}

/// Counts the parts of a language in recorded cases.
pub struct Choice {
    /// Number of cases wanted.
    wanted: usize,
    parts: Vec<Part>,
    taken: usize,
    errors: usize,
    empty: usize,
    /// Whether rare parts are preferred at the end.
    seeks: bool,
}

impl Choice {
    /// A choice of `wanted` cases of a language with these functions, operators and other words.
    /// `left_out` are those that no case can have.
    pub fn new(wanted: usize, parts: impl IntoIterator<Item = String>, left_out: &[&str]) -> Self {
        let part = |text: String| {
            let is_left_out = left_out.contains(&text.as_str());
            Part { text, taken: 0, missed: 0, is_left_out }
        };
        let parts = parts.into_iter().map(part).collect();
        Self { wanted, parts, taken: 0, errors: 0, empty: 0, seeks: true }
    }

    /// Returns whether there are enough cases.
    pub fn is_complete(&self) -> bool {
        self.taken >= self.wanted
    }

    /// Returns whether a query may be recorded: only then it is worth asking for its answer.
    pub fn may_take(&self, query: &str) -> bool {
        let is_common = self.taken * 100 < self.wanted * COMMON_PERCENT;
        if is_common || !self.seeks {
            return true;
        }
        let sought = || self.parts.iter().filter(|part| part.is_sought());
        let Some(rarest) = sought().map(|part| part.taken).min() else { return true };
        sought().any(|part| part.taken <= rarest + RARE_WITHIN && mentions(query, &part.text))
    }

    /// Stops preferring rare parts. Returns whether they were preferred before.
    pub fn stop_seeking(&mut self) -> bool {
        std::mem::replace(&mut self.seeks, false)
    }

    /// Returns whether another case with this outcome may be recorded.
    pub fn has_room(&self, outcome: Outcome) -> bool {
        let (count, percent) = match outcome {
            Outcome::Answer => return true,
            Outcome::Empty => (self.empty, EMPTY_PERCENT),
            Outcome::Error => (self.errors, ERRORS_PERCENT),
        };
        count * 100 < self.wanted * percent
    }

    /// Returns whether a case is recorded, and counts it.
    pub fn takes(&mut self, query: &str, outcome: Outcome) -> bool {
        if !self.has_room(outcome) {
            return false;
        }
        self.taken += 1;
        match outcome {
            Outcome::Empty => self.empty += 1,
            Outcome::Error => self.errors += 1,
            Outcome::Answer => {
                for part in self.parts.iter_mut().filter(|part| mentions(query, &part.text)) {
                    part.taken += 1;
                    part.missed = 0;
                }
            }
        }
        true
    }

    /// Counts a case that is not recorded.
    pub fn misses(&mut self, query: &str) {
        let missed = self.parts.iter_mut().filter(|part| part.is_sought() && mentions(query, &part.text));
        missed.for_each(|part| part.missed += 1);
    }

    /// Prints how often each part occurs in cases with an answer. Fails if one that is not left out does not
    /// occur, or one that is left out does.
    pub fn report(&self) -> Result<()> {
        for row in self.parts.chunks(6) {
            let row: Vec<String> = row.iter().map(|part| format!("{} {}", part.text, part.taken)).collect();
            println!("  {}", row.join("   "));
        }
        println!("  {} cases, of these {} errors and {} empty answers", self.taken, self.errors, self.empty);
        for part in self.parts.iter().filter(|part| !part.is_left_out && part.missed >= MISSED_MAX) {
            let Part { text, taken, missed, .. } = part;
            println!("  {text} has {taken} cases: the last {missed} were not recorded");
        }
        let is_wrong = |part: &&Part| (part.taken == 0) != part.is_left_out;
        let wrong: Vec<&str> = self.parts.iter().filter(is_wrong).map(|part| part.text.as_str()).collect();
        if !wrong.is_empty() {
            bail!("without a case, or recorded although left out: {}", wrong.join(", "));
        }
        Ok(())
    }
}

/// Returns whether a query contains a part of the language; a word is not found within a longer one.
fn mentions(query: &str, part: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    query.match_indices(part).any(|(at, _)| {
        let (before, after) = (&query[..at], &query[at + part.len()..]);
        let splits_start = is_word(part.chars().next()) && is_word(before.chars().next_back());
        let splits_end = is_word(part.chars().next_back()) && is_word(after.chars().next());
        !splits_start && !splits_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_not_found_within_longer_ones() {
        assert!(mentions("sum(rate(x[5m]))", "rate("));
        assert!(!mentions("irate(x[5m])", "rate("));
        assert!(!mentions("x_count", "count") && mentions("count by (a) (x)", "count"));
        assert!(mentions("(a) == (b)", "==") && mentions("x | json", "| json"));
    }

    fn choice(left_out: &[&str]) -> Choice {
        let mut choice = Choice::new(100, ["a(", "b("].map(str::to_owned), left_out);
        assert!(
            (0..COMMON_PERCENT).all(|_| choice.may_take("a(x)") && choice.takes("a(x)", Outcome::Answer))
        );
        choice
    }

    #[test]
    fn rare_parts_are_preferred_at_the_end() {
        let mut choice = choice(&[]);
        assert!(!choice.may_take("a(x)") && choice.may_take("b(x)"));
        assert!(choice.report().is_err());
        assert!((0..OFTEN).all(|_| choice.may_take("b(x)") && choice.takes("b(x)", Outcome::Answer)));
        assert!(choice.may_take("a(x)"), "no part is rare any more");
        assert!(choice.report().is_ok());
        assert_eq!((0..20).filter(|_| choice.takes("a(", Outcome::Error)).count(), ERRORS_PERCENT);
        assert!(!choice.has_room(Outcome::Error) && choice.has_room(Outcome::Empty));
    }

    #[test]
    fn parts_that_cannot_be_recorded_do_not_hold_up_the_others() {
        let mut left_out = choice(&["b("]);
        assert!(left_out.may_take("a(x)") && left_out.report().is_ok());
        assert!(left_out.takes("b(x)", Outcome::Answer) && left_out.report().is_err());
        let mut missed = choice(&[]);
        (0..MISSED_MAX).for_each(|_| missed.misses("b(x)"));
        assert!(missed.may_take("a(x)") && missed.report().is_err());
        let mut never_drawn = choice(&[]);
        assert!(never_drawn.stop_seeking() && never_drawn.may_take("a(x)"));
        assert!(!never_drawn.stop_seeking());
    }
}
