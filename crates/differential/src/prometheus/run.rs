//! A complete run: sends queries in order, explains differences, and reduces and prints those without a
//! rule.

use std::collections::BTreeMap;

use super::answer::Answer;
use super::ask::Ask;
use super::case::Case;
use super::compare::{Difference, Kind, compare};
use super::peers::Peer;
use super::rules::{RULES, Rule};

/// The largest number of queries that are tried in order to reduce one.
const TRIES_MAX: usize = 300;

/// How often a control query is sent: Prometheus may order equal series differently each time.
const CONTROL_TRIES: usize = 4;

/// Both peers.
pub struct Pair {
    /// Prometheus.
    pub theirs: Peer,
    /// Sandur.
    pub ours: Peer,
}

impl Pair {
    fn both(&mut self, ask: &Ask) -> (Answer, Answer) {
        (self.theirs.ask(ask), self.ours.ask(ask))
    }

    fn unexplained(&mut self, ask: &Ask) -> Option<(Difference, Option<&'static str>)> {
        let (theirs, ours) = self.both(ask);
        self.judged(ask, &theirs, &ours)
    }

    /// Returns how two answers differ, and the rule that explains it.
    pub fn judged(
        &mut self,
        ask: &Ask,
        theirs: &Answer,
        ours: &Answer,
    ) -> Option<(Difference, Option<&'static str>)> {
        let difference = compare(theirs, ours, ask.is_ordered())?;
        let text = ask.expression.to_string();
        let case = Case { ask, text, difference: &difference, theirs, ours };
        let mut rules = RULES.iter().filter(|rule| (rule.explains)(&case));
        let rule = rules.find(|rule| {
            let controls = (rule.controls)(&case);
            let mut asked = (0..CONTROL_TRIES).flat_map(|_| &controls);
            controls.is_empty() || asked.any(|control| self.differs_by(rule, control))
        });
        let rule = rule.map(|rule| rule.id);
        Some((difference, rule))
    }

    /// Returns whether the answers to a control query differ by a rule without further controls.
    fn differs_by(&mut self, rule: &Rule, ask: &Ask) -> bool {
        let (theirs, ours) = self.both(ask);
        let Some(difference) = compare(&theirs, &ours, ask.is_ordered()) else { return false };
        let text = ask.expression.to_string();
        let case = Case { ask, text, difference: &difference, theirs: &theirs, ours: &ours };
        (rule.explains)(&case) && (rule.controls)(&case).is_empty()
    }
}

/// The result of a run.
#[derive(Default)]
pub struct Report {
    /// Number of queries sent.
    pub asked: usize,
    /// Number of queries that Prometheus refused.
    pub refused: usize,
    /// Number of queries with an empty answer.
    pub empty: usize,
    /// Number of differences by the rule that explains them.
    pub explained: BTreeMap<&'static str, usize>,
    /// Number of differences that no rule explains, by their kind.
    pub findings: BTreeMap<Kind, usize>,
}

impl Report {
    /// Sends a query to both and compares the answers.
    pub fn ask(&mut self, pair: &mut Pair, origin: &str, ask: &Ask) {
        self.asked += 1;
        let Some((difference, rule)) = pair.unexplained(ask) else {
            self.count(pair, ask);
            return;
        };
        if let Some(rule) = rule {
            *self.explained.entry(rule).or_default() += 1;
            return;
        }
        *self.findings.entry(difference.kind).or_default() += 1;
        let small = shrink(pair, ask, difference.kind);
        let again = pair.unexplained(&small).map_or(difference, |(difference, _)| difference);
        println!("{origin}: {small}\n  {:?}: {}\n", again.kind, again.detail);
    }

    /// Checks every sixteenth answer: counts errors and empty answers.
    fn count(&mut self, pair: &mut Pair, ask: &Ask) {
        if !self.asked.is_multiple_of(16) {
            return;
        }
        match pair.theirs.ask(ask).outcome {
            Err(_) => self.refused += 16,
            Ok(data) if data.is_empty() => self.empty += 16,
            Ok(_) => {}
        }
    }

    /// Prints the result.
    pub fn print(&self) {
        let Self { asked, refused, empty, explained, findings } = self;
        println!("{asked} asked, about {refused} refused by both and {empty} with empty answers");
        explained.iter().for_each(|(rule, count)| println!("  explained by {rule}: {count}"));
        findings.iter().for_each(|(kind, count)| println!("  UNEXPLAINED {kind:?}: {count}"));
    }
}

/// Returns the smallest query found with a difference of the same kind.
fn shrink(pair: &mut Pair, ask: &Ask, kind: Kind) -> Ask {
    let mut best = ask.clone();
    let mut tries = 0;
    'again: loop {
        for smaller in best.expression.smaller() {
            tries += 1;
            if tries > TRIES_MAX {
                return best;
            }
            let smaller = best.of(smaller);
            if pair.unexplained(&smaller).is_some_and(|(found, rule)| rule.is_none() && found.kind == kind) {
                best = smaller;
                continue 'again;
            }
        }
        return best;
    }
}
