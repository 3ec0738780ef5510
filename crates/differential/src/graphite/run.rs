//! A whole run: questions in order, differences explained or made smaller and printed.

use std::collections::BTreeMap;

use anyhow::Result;

use super::answer::{Answer, Difference, Kind, compare};
use super::ask::Ask;
use super::oracle::Oracle;
use super::ours::Ours;
use super::rules::{Case, RULES};

/// Questions that are tried at most to make one smaller.
const TRIES_MAX: usize = 200;

/// Functions in whose answers differences of large numbers stand.
const CANCELLING: &[&str] =
    &["stdev", "stddev", "linearRegression", "holtWinters", "diff", "erivative", "perSecond", "offsetToZero"];

/// Both who are asked.
pub struct Pair {
    /// graphite-web.
    pub theirs: Oracle,
    /// We.
    pub ours: Ours,
}

impl Pair {
    /// Both answers and how they differ, and the rule that explains it. graphite-web answers without and
    /// with checks of arguments, and ours may be either.
    fn unexplained(&mut self, ask: &Ask) -> Result<Outcome> {
        let (theirs, ours) = (self.theirs.ask(ask, false)?, self.ours.ask(ask));
        let text = ask.text();
        let cancels = CANCELLING.iter().any(|name| text.contains(name));
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

enum Outcome {
    Equal(Answer),
    Differs(Difference, Option<&'static str>),
}

/// What a run found.
#[derive(Default)]
pub struct Report {
    /// Questions asked.
    pub asked: usize,
    /// Those that both refused.
    pub refused: usize,
    /// Those that graphite-web has no answer to.
    pub failed: usize,
    /// Those that had nothing in the answer.
    pub empty: usize,
    /// Differences by the rule that explains them.
    pub explained: BTreeMap<&'static str, usize>,
    /// Differences that no rule explains, by their kind.
    pub findings: BTreeMap<Kind, usize>,
}

impl Report {
    /// Asks both.
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

    /// Prints what was found.
    pub fn print(&self) {
        let Self { asked, refused, failed, empty, explained, findings } = self;
        println!("{asked} asked, {refused} refused by both, {failed} without an answer of graphite-web");
        println!("{empty} with empty answers");
        explained.iter().for_each(|(rule, count)| println!("  explained by {rule}: {count}"));
        findings.iter().for_each(|(kind, count)| println!("  UNEXPLAINED {kind:?}: {count}"));
    }
}

/// The smallest question found that differs in the same kind.
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
