//! A whole run: cases in order, differences gathered, explained or made smaller, and a report.

use std::collections::BTreeMap;

use sandur_bench::http::Answer;

use crate::ask::Ask;
use crate::compare::compare;
use crate::rules::{Case, VARIES, explanation};
use crate::servers::Servers;
use crate::shrink::shrink;

/// How often Loki is asked again to see whether it answers itself differently.
const REPEATS: usize = 6;

/// Where a case comes from, to be printed so that it can be asked again.
pub type Origin = String;

/// What a run found.
#[derive(Default)]
pub struct Report {
    /// Requests made.
    pub asked: usize,
    /// Requests that Loki answered with an error.
    pub refused: usize,
    /// Requests that Loki answered with nothing in it.
    pub empty: usize,
    /// Differences by the rule that explains them.
    pub explained: BTreeMap<&'static str, usize>,
    /// Differences that no rule explains, by their kind; each was printed when it was found.
    pub findings: BTreeMap<String, usize>,
}

/// Asks both the same.
fn both(servers: &mut Servers, ask: &Ask) -> (Answer, Answer) {
    (servers.loki.ask(ask), servers.ours.ask(ask))
}

impl Report {
    /// Asks one request and notes how the answers differ.
    pub fn ask(&mut self, servers: &mut Servers, origin: Origin, ask: &Ask) {
        let (loki, ours) = both(servers, ask);
        self.asked += 1;
        self.refused += usize::from(loki.status >= 400);
        self.empty += usize::from(loki.status < 300 && is_empty(&loki));
        let Some(difference) = compare(ask, &loki, &ours) else { return };
        let case = Case { ask, difference: &difference, loki: &loki, ours: &ours };
        if let Some(rule) = explanation(&case) {
            *self.explained.entry(rule.id).or_default() += 1;
            return;
        }
        if self.loki_gives(servers, ask, &ours) {
            *self.explained.entry(VARIES).or_default() += 1;
            return;
        }
        let mut differs = |ask: &Ask| {
            let (loki, ours) = both(servers, ask);
            let difference = compare(ask, &loki, &ours)?;
            let case = Case { ask, difference: &difference, loki: &loki, ours: &ours };
            explanation(&case).is_none().then_some(difference.kind)
        };
        let small = shrink(ask, difference.kind, &mut differs);
        let (loki, ours) = both(servers, &small);
        let difference = compare(&small, &loki, &ours).unwrap_or(difference);
        println!("--- {:?}  [{origin}]\n  {small}\n      {}", difference.kind, difference.detail);
        *self.findings.entry(format!("{:?}", difference.kind)).or_default() += 1;
    }

    /// Whether Loki, asked again, gives our answer: then its first one was one of several.
    fn loki_gives(&self, servers: &mut Servers, ask: &Ask, ours: &Answer) -> bool {
        for _ in 0..REPEATS {
            let again = servers.loki.ask(ask);
            let Some(difference) = compare(ask, &again, ours) else { return true };
            let case = Case { ask, difference: &difference, loki: &again, ours };
            if explanation(&case).is_some() {
                return true;
            }
        }
        false
    }

    /// Prints the sums.
    pub fn print(&self) {
        println!(
            "{} asked: {} refused by Loki, {} empty; {} unexplained {:?}",
            self.asked,
            self.refused,
            self.empty,
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
