//! A complete run: sends cases in order, collects differences, explains or reduces them, and reports.

use std::collections::BTreeMap;

use sandur_bench::http::Answer;

use crate::ask::Ask;
use crate::compare::{Difference, Kind, compare};
use crate::controls::formatted;
use crate::rules::{Case, Check, RULES, Rule, VARIES};
use crate::servers::Servers;
use crate::shrink::shrink;

/// How often a request is sent to Loki again in order to see whether its answers vary.
const REPEATS: usize = 6;
/// How many further causes of differences a query may have in addition to one.
const OTHERS_MAX: usize = 2;

/// The origin of a case, printed so that it can be repeated.
pub type Origin = String;

/// The result of a run.
#[derive(Default)]
pub struct Report {
    /// Number of requests sent.
    pub asked: usize,
    /// Number of requests that Loki answered with an error.
    pub refused: usize,
    /// Number of requests with an empty answer of Loki.
    pub empty: usize,
    /// Number of requests that Loki did not answer in time.
    pub unanswered: usize,
    /// Number of differences by the rule that explains them.
    pub explained: BTreeMap<&'static str, usize>,
    /// Number of differences that no rule explains, by their kind. Each was printed when it was found.
    pub findings: BTreeMap<String, usize>,
}

/// Loki and Sandur.
pub trait Sides {
    /// Sends a request to Loki.
    fn loki(&mut self, ask: &Ask) -> Answer;

    /// Sends a request to Sandur.
    fn ours(&mut self, ask: &Ask) -> Answer;

    /// Returns how two answers differ, if they do.
    fn difference(&self, ask: &Ask, loki: &Answer, ours: &Answer) -> Option<Difference> {
        compare(ask, loki, ours)
    }
}

impl Sides for Servers {
    fn loki(&mut self, ask: &Ask) -> Answer {
        self.loki.ask(ask)
    }

    fn ours(&mut self, ask: &Ask) -> Answer {
        self.ours.ask(ask)
    }
}

/// Sends a request to both.
fn both(sides: &mut dyn Sides, ask: &Ask) -> (Answer, Answer) {
    (sides.loki(ask), sides.ours(ask))
}

/// Returns the name of the rule that explains how two answers differ: one that explains all of it, or one of
/// several, or [`VARIES`].
pub fn explained(sides: &mut dyn Sides, case: &Case<'_>) -> Option<&'static str> {
    let rule = explanation(sides, case, OTHERS_MAX).map(|rule| rule.id);
    rule.or_else(|| loki_gives(sides, case, OTHERS_MAX).then_some(VARIES))
}

/// Returns the rule that explains how two answers differ: one that explains all of it, or one of
/// several.
fn explanation(sides: &mut dyn Sides, case: &Case<'_>, others: usize) -> Option<&'static Rule> {
    (0..=others).find_map(|others| {
        RULES.iter().find(|rule| (rule.explains)(case) && confirmed(sides, rule, case, others))
    })
}

/// Returns whether control requests confirm a rule. A control may show differences with up to `others`
/// other reasons.
fn confirmed(sides: &mut dyn Sides, rule: &Rule, case: &Case<'_>, others: usize) -> bool {
    let control = match rule.check {
        Check::None => return true,
        Check::FormattedAlike => {
            let again = formatted(case.ask, case.ours).map(|ask| sides.loki(&ask));
            return again.is_some_and(|again| again.body == case.loki.body);
        }
        Check::Alike(control) => control,
    };
    let Some(control) = control(case.ask) else { return false };
    let (loki, ours) = both(sides, &control);
    let Some(difference) = sides.difference(&control, &loki, &ours) else { return true };
    let case = Case { ask: &control, difference: &difference, loki: &loki, ours: &ours };
    others > 0 && (explanation(sides, &case, others - 1).is_some() || loki_gives(sides, &case, others - 1))
}

/// Returns whether Loki gives our answer when the request is repeated: its first answer then was one of
/// several.
fn loki_gives(sides: &mut dyn Sides, case: &Case<'_>, others: usize) -> bool {
    for _ in 0..REPEATS {
        let loki = sides.loki(case.ask);
        let Some(difference) = sides.difference(case.ask, &loki, case.ours) else { return true };
        let again = Case { difference: &difference, loki: &loki, ..*case };
        if explanation(sides, &again, others).is_some() {
            return true;
        }
    }
    false
}

/// Returns how both answers to a request differ, if no rule explains it.
fn unexplained(sides: &mut dyn Sides, ask: &Ask) -> Option<Kind> {
    let (loki, ours) = both(sides, ask);
    let difference = sides.difference(ask, &loki, &ours)?;
    let case = Case { ask, difference: &difference, loki: &loki, ours: &ours };
    explanation(sides, &case, OTHERS_MAX).is_none().then_some(difference.kind)
}

impl Report {
    /// Sends a request and records how the answers differ.
    pub fn ask(&mut self, servers: &mut Servers, origin: Origin, ask: &Ask) {
        let (loki, ours) = both(servers, ask);
        self.asked += 1;
        self.refused += usize::from(loki.status >= 400);
        self.unanswered += usize::from(loki.status == 0);
        self.empty += usize::from(loki.status < 300 && is_empty(&loki));
        let Some(difference) = compare(ask, &loki, &ours) else { return };
        let case = Case { ask, difference: &difference, loki: &loki, ours: &ours };
        if let Some(id) = explained(servers, &case) {
            *self.explained.entry(id).or_default() += 1;
            return;
        }
        let small = shrink(ask, difference.kind, &mut |ask| unexplained(servers, ask));
        let (loki, ours) = both(servers, &small);
        let difference = compare(&small, &loki, &ours).unwrap_or(difference);
        println!("--- {:?}  [{origin}]\n  {small}\n      {}", difference.kind, difference.detail);
        *self.findings.entry(format!("{:?}", difference.kind)).or_default() += 1;
    }

    /// Prints the sums.
    pub fn print(&self) {
        println!(
            "{} asked: {} refused by Loki, {} empty, {} not answered; {} unexplained {:?}",
            self.asked,
            self.refused,
            self.empty,
            self.unanswered,
            self.findings.values().sum::<usize>(),
            self.findings
        );
        for (id, count) in &self.explained {
            println!("  explained by {id}: {count}");
        }
    }
}

fn is_empty(answer: &Answer) -> bool {
    let body = String::from_utf8_lossy(&answer.body);
    body.contains("\"result\":[]") || body.contains("\"data\":[]")
}
