//! A complete run: sends requests in order, explains differences, and reduces and prints those without a
//! rule.

use std::collections::BTreeMap;

use anyhow::Result;

use super::answer::{Answer, Difference, Kind, compare};
use super::ask::Ask;
use super::oracle::Oracle;
use super::ours::Ours;
use super::rules::{Case, RULES};

/// The largest number of requests that are tried in order to reduce one.
const TRIES_MAX: usize = 200;

/// Functions whose results contain differences of large numbers.
const CANCELLING: &[&str] =
    &["stdev", "stddev", "linearRegression", "holtWinters", "diff", "erivative", "perSecond", "offsetToZero"];

/// Both sides.
pub struct Pair {
    /// graphite-web.
    pub theirs: Oracle,
    /// Our language.
    pub ours: Ours,
}

impl Pair {
    /// Returns how both answers differ, and the rule that explains it. graphite-web answers with and
    /// without checks of arguments; our answer may agree with either.
    pub fn unexplained(&mut self, ask: &Ask) -> Result<Outcome> {
        let (theirs, ours) = (self.theirs.ask(ask, false)?, self.ours.ask(ask));
        let text = ask.text();
        let cancels = cancels(&text);
        let Some(difference) = compare(&theirs, &ours, cancels) else { return Ok(Outcome::Equal(theirs)) };
        let strict = self.theirs.ask(ask, true)?;
        if !matches!(strict, Answer::Failed(_)) && compare(&strict, &ours, cancels).is_none() {
            return Ok(Outcome::Equal(strict));
        }
        let case = Case { ask, text, difference: &difference, theirs: &theirs, ours: &ours };
        let rule = RULES.iter().find(|rule| (rule.explains)(&case)).map(|rule| rule.id);
        Ok(Outcome::Differs(difference, rule))
    }
}

/// The comparison of the answers to a request.
pub enum Outcome {
    /// graphite-web's answer, which is ours.
    Equal(Answer),
    /// The difference, and the rule that explains it.
    Differs(Difference, Option<&'static str>),
}

/// Returns whether the results of these targets contain differences of large numbers.
pub fn cancels(targets: &str) -> bool {
    CANCELLING.iter().any(|name| targets.contains(name))
}

/// The result of a run.
#[derive(Default)]
pub struct Report {
    /// Number of requests sent.
    pub asked: usize,
    /// Number of requests that both rejected.
    pub refused: usize,
    /// Number of requests without an answer of graphite-web.
    pub failed: usize,
    /// Number of requests with an empty answer.
    pub empty: usize,
    /// Number of differences by the rule that explains them.
    pub explained: BTreeMap<&'static str, usize>,
    /// Number of differences that no rule explains, by their kind.
    pub findings: BTreeMap<Kind, usize>,
}

impl Report {
    /// Sends a request to both and compares the answers.
    pub fn ask(&mut self, pair: &mut Pair, origin: &str, ask: &Ask) -> Result<()> {
        self.asked += 1;
        match pair.unexplained(ask)? {
            Outcome::Equal(Answer::Refused(_)) => self.refused += 1,
            Outcome::Equal(Answer::Failed(_)) => self.failed += 1,
            Outcome::Equal(Answer::Rows(rows)) => self.empty += usize::from(rows.is_empty()),
            Outcome::Differs(_, Some(rule)) => *self.explained.entry(rule).or_default() += 1,
            Outcome::Differs(difference, None) => {
                *self.findings.entry(difference.kind).or_default() += 1;
                let (small, detail) = shrink(pair, ask, difference)?;
                println!("{origin}: {small}\n  {:?}: {}\n", detail.kind, detail.detail);
            }
        }
        Ok(())
    }

    /// Prints the result.
    pub fn print(&self) {
        let Self { asked, refused, failed, empty, explained, findings } = self;
        println!("{asked} asked, {refused} refused by both, {failed} without an answer of graphite-web");
        println!("{empty} with empty answers");
        explained.iter().for_each(|(rule, count)| println!("  explained by {rule}: {count}"));
        findings.iter().for_each(|(kind, count)| println!("  UNEXPLAINED {kind:?}: {count}"));
    }
}

/// Returns the smallest request found with a difference of the same kind.
fn shrink(pair: &mut Pair, ask: &Ask, difference: Difference) -> Result<(Ask, Difference)> {
    let mut best = (ask.clone(), difference);
    let mut tries = 0;
    'again: loop {
        for smaller in best.0.smaller() {
            tries += 1;
            if tries > TRIES_MAX {
                return Ok(best);
            }
            if let Outcome::Differs(found, None) = pair.unexplained(&smaller)?
                && found.kind == best.1.kind
            {
                best = (smaller, found);
                continue 'again;
            }
        }
        return Ok(best);
    }
}
