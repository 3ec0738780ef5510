//! Decides which cases are recorded, so that every function and operator occurs often enough.

use std::fmt::{Debug, Display};

use anyhow::{Result, bail};

/// The share of the cases that are taken as they come, in percent. The others have a part of the
/// language that was rare among these.
const COMMON_PERCENT: usize = 70;
/// How often each part of the language shall occur.
const OFTEN: usize = 24;
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

/// Counts the parts of a language in recorded cases.
pub struct Choice {
    /// Number of cases wanted.
    wanted: usize,
    parts: Vec<(String, usize)>,
    taken: usize,
    errors: usize,
    empty: usize,
}

impl Choice {
    /// A choice of `wanted` cases of a language with these functions, operators and other words.
    pub fn new(wanted: usize, parts: impl IntoIterator<Item = String>) -> Self {
        let parts = parts.into_iter().map(|part| (part, 0)).collect();
        Self { wanted, parts, taken: 0, errors: 0, empty: 0 }
    }

    /// Returns whether there are enough cases.
    pub fn is_complete(&self) -> bool {
        self.taken >= self.wanted
    }

    /// Returns whether a query may be recorded: only then it is worth asking for its answer.
    pub fn may_take(&self, query: &str) -> bool {
        let is_common = self.taken * 100 < self.wanted * COMMON_PERCENT;
        let mut rare = self.parts.iter().filter(|(_, count)| *count < OFTEN).peekable();
        is_common || rare.peek().is_none() || rare.any(|(part, _)| mentions(query, part))
    }

    /// Returns whether a case is recorded, and counts it.
    pub fn takes(&mut self, query: &str, outcome: Outcome) -> bool {
        let counted = match outcome {
            Outcome::Answer => {
                let parts = self.parts.iter_mut().filter(|(part, _)| mentions(query, part));
                parts.for_each(|(_, count)| *count += 1);
                self.taken += 1;
                return true;
            }
            Outcome::Empty => (&mut self.empty, EMPTY_PERCENT),
            Outcome::Error => (&mut self.errors, ERRORS_PERCENT),
        };
        let (count, percent) = counted;
        let fits = *count * 100 < self.wanted * percent;
        *count += usize::from(fits);
        self.taken += usize::from(fits);
        fits
    }

    /// Prints how often each part occurs in cases with an answer. Fails if one that is not in `left_out`
    /// does not occur, or one that is in it does.
    pub fn report(&self, left_out: &[&str]) -> Result<()> {
        for row in self.parts.chunks(6) {
            let row: Vec<String> = row.iter().map(|(part, count)| format!("{part} {count}")).collect();
            println!("  {}", row.join("   "));
        }
        println!("  {} cases, of these {} errors and {} empty answers", self.taken, self.errors, self.empty);
        let is_wrong = |(part, count): &&(String, usize)| (*count == 0) != left_out.contains(&part.as_str());
        let wrong: Vec<&str> = self.parts.iter().filter(is_wrong).map(|(part, _)| part.as_str()).collect();
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

    #[test]
    fn rare_parts_are_preferred_at_the_end() {
        let mut choice = Choice::new(100, ["a(", "b("].map(str::to_owned));
        assert!((0..70).all(|_| choice.may_take("a(x)") && choice.takes("a(x)", Outcome::Answer)));
        assert!(!choice.may_take("a(x)") && choice.may_take("b(x)"));
        assert!(choice.report(&["b("]).is_ok() && choice.report(&[]).is_err());
        assert!((0..OFTEN).all(|_| choice.may_take("b(x)") && choice.takes("b(x)", Outcome::Answer)));
        assert!(choice.may_take("a(x)"), "no part is rare any more");
        assert!(choice.report(&["b("]).is_err() && choice.report(&[]).is_ok());
        assert_eq!((0..20).filter(|_| choice.takes("a(", Outcome::Error)).count(), ERRORS_PERCENT);
    }
}
