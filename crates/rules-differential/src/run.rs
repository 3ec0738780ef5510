//! Evaluates cases on both sides, compares the outcomes, and reports.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::case::{Case, Event};
use crate::compare::{Compared, Difference, compare};
use crate::explained::Both;
use crate::outcome::Outcome;
use crate::reduce::reduce;
use crate::theirs::Theirs;
use crate::{draw, ours};

/// The most differences of a reduced case that are printed.
const PRINTED: usize = 6;

/// The most characters of the samples of a series that are printed.
const SHOWN: usize = 200;

/// What to do.
pub struct Options {
    /// The seed of all cases.
    pub seed: u64,
    /// The numbers of the cases.
    pub numbers: std::ops::Range<u64>,
    /// The evaluations of a case, on average.
    pub steps: usize,
    /// Whether a difference is reduced.
    pub reduces: bool,
}

/// What was found.
#[derive(Default)]
pub struct Report {
    groups: u64,
    compared: Compared,
    /// The cases and the differences that each rule explains.
    explained: BTreeMap<&'static str, (u64, u64)>,
    /// The numbers of cases with a difference that no rule explains.
    pub findings: Vec<u64>,
}

/// Runs all cases.
pub fn run(program: &Path, options: &Options) -> Result<Report> {
    let mut theirs = Theirs::start(program)?;
    let mut report = Report::default();
    for number in options.numbers.clone() {
        let case = draw::case(options.seed, number, options.steps);
        let (outcome, differences) = both(&mut theirs, &case)?;
        report.groups += 1;
        report.compared.add(Compared::of(&outcome.0));
        let both_outcomes = Both { case: &case, theirs: &outcome.0, ours: &outcome.1 };
        let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut unexplained = false;
        for difference in &differences {
            match both_outcomes.explain(difference) {
                Some(id) => *counts.entry(id).or_default() += 1,
                None => unexplained = true,
            }
        }
        for (id, count) in counts {
            let total = report.explained.entry(id).or_default();
            *total = (total.0 + 1, total.1 + count);
        }
        if unexplained {
            report.findings.push(number);
            print_finding(&mut theirs, options, number, case)?;
        }
    }
    Ok(report)
}

/// Evaluates a case on both sides at the same time.
fn both(theirs: &mut Theirs, case: &Case) -> Result<((Outcome, Outcome), Vec<Difference>)> {
    theirs.begin(case)?;
    let ours = ours::evaluate(case);
    let theirs = theirs.outcome()?;
    let ours = ours.unwrap_or_else(|error| Outcome { failure: format!("{error:#}"), ..Outcome::default() });
    let differences = compare(case, &theirs, &ours);
    Ok(((theirs, ours), differences))
}

/// The differences that no rule explains.
fn unexplained(theirs: &mut Theirs, case: &Case) -> Result<Vec<Difference>> {
    let (outcomes, mut differences) = both(theirs, case)?;
    let both = Both { case, theirs: &outcomes.0, ours: &outcomes.1 };
    differences.retain(|difference| both.explain(difference).is_none());
    Ok(differences)
}

fn print_finding(theirs: &mut Theirs, options: &Options, number: u64, case: Case) -> Result<()> {
    println!("DIFFERENCE --seed {} --case {number} --steps {}", options.seed, options.steps);
    let mut failed = None;
    let case = match options.reduces {
        false => case,
        true => {
            // A case that one side refuses shows nothing.
            let mut differs = |candidate: &Case| match unexplained(theirs, candidate) {
                Ok(found) => found.iter().any(|one| one.place != crate::compare::Place::Case),
                Err(error) => {
                    failed = Some(error);
                    false
                }
            };
            if differs(&case) { reduce(case, differs) } else { case }
        }
    };
    if let Some(error) = failed {
        return Err(error);
    }
    print_case(&case);
    let found = unexplained(theirs, &case)?;
    for difference in found.iter().take(PRINTED) {
        println!("{difference}");
    }
    println!("({} differences)\n", found.len());
    Ok(())
}

/// Prints a case for people.
pub fn print_case(case: &Case) {
    for (number, version) in case.versions.iter().enumerate() {
        println!("version {number}:\n{}", version.yaml());
    }
    let (mut step, mut line) = (0, String::new());
    for event in &case.events {
        match event {
            Event::Evaluate { at_ms } => {
                line.push_str(&format!(" {step}@{at_ms}"));
                step += 1;
            }
            Event::Restart { version } => line.push_str(&format!("\n  restart with version {version}:")),
            Event::Reload { version } => line.push_str(&format!("\n  change to version {version}:")),
        }
    }
    let Case { outage_ms, grace_ms, resend_ms, .. } = case;
    println!("evaluations:{line}");
    println!("outage tolerance {outage_ms} ms, grace {grace_ms} ms, resend delay {resend_ms} ms");
    for series in &case.series {
        let values: Vec<String> =
            series.samples.iter().map(|sample| format!("{}@{}", sample.value(), sample.0)).collect();
        let text = values.join(" ");
        println!("{:?} {}", series.labels, text.chars().take(SHOWN).collect::<String>());
    }
}

impl Report {
    /// Prints the counts.
    pub fn print(&self) {
        let Compared { steps, evaluations, failures, alerts, sent, samples } = self.compared;
        println!(
            "{} groups, {steps} evaluations of groups, {evaluations} of rules ({failures} failed); {samples} \
             samples, {alerts} states of alerts and {sent} sent alerts compared",
            self.groups
        );
        for (id, (cases, differences)) in &self.explained {
            println!("explained by {id}: {differences} differences in {cases} groups");
        }
        println!("groups with other differences: {}", self.findings.len());
    }
}
