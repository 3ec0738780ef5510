//! A whole run: questions in order, differences explained or made smaller and printed.

use std::collections::BTreeMap;

use super::answer::Answer;
use super::ask::Ask;
use super::compare::{Difference, Kind, compare};
use super::peers::Peer;
use super::rules::{Case, RULES, Rule};

/// Questions that are tried at most to make one smaller.
const TRIES_MAX: usize = 300;

/// How often a control question is asked: Prometheus may have equal series in another order each time.
const CONTROL_TRIES: usize = 4;

/// Both who are asked.
pub struct Pair {
    /// Prometheus.
    pub theirs: Peer,
    /// We.
    pub ours: Peer,
}

impl Pair {
    fn both(&mut self, ask: &Ask) -> (Answer, Answer) {
        (self.theirs.ask(ask), self.ours.ask(ask))
    }

    fn unexplained(&mut self, ask: &Ask) -> Option<(Difference, Option<&'static str>)> {
        let (theirs, ours) = self.both(ask);
        let difference = compare(&theirs, &ours, ask.is_ordered())?;
        let text = ask.expression.to_string();
        let case = Case { ask, text, difference: &difference, theirs: &theirs, ours: &ours };
        let mut rules = RULES.iter().filter(|rule| (rule.explains)(&case));
        let rule = rules.find(|rule| {
            let controls = (rule.controls)(&case);
            let mut asked = (0..CONTROL_TRIES).flat_map(|_| &controls);
            controls.is_empty() || asked.any(|control| self.differs_by(rule, control))
        });
        let rule = rule.map(|rule| rule.id);
        Some((difference, rule))
    }

    /// Whether the answers to a control question differ by a rule that needs no other question there.
    fn differs_by(&mut self, rule: &Rule, ask: &Ask) -> bool {
        let (theirs, ours) = self.both(ask);
        let Some(difference) = compare(&theirs, &ours, ask.is_ordered()) else { return false };
        let text = ask.expression.to_string();
        let case = Case { ask, text, difference: &difference, theirs: &theirs, ours: &ours };
        (rule.explains)(&case) && (rule.controls)(&case).is_empty()
    }
}

/// What a run found.
#[derive(Default)]
pub struct Report {
    /// Questions asked.
    pub asked: usize,
    /// Those that Prometheus refused.
    pub refused: usize,
    /// Those that had nothing in the answer.
    pub empty: usize,
    /// Differences by the rule that explains them.
    pub explained: BTreeMap<&'static str, usize>,
    /// Differences that no rule explains, by their kind.
    pub findings: BTreeMap<Kind, usize>,
}

impl Report {
    /// Asks both.
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

    /// Looks at every sixteenth answer: how many say something.
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

    /// Prints what was found.
    pub fn print(&self) {
        let Self { asked, refused, empty, explained, findings } = self;
        println!("{asked} asked, about {refused} refused by both and {empty} with empty answers");
        explained.iter().for_each(|(rule, count)| println!("  explained by {rule}: {count}"));
        findings.iter().for_each(|(kind, count)| println!("  UNEXPLAINED {kind:?}: {count}"));
    }
}

/// The smallest question found that differs in the same kind.
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
