//! Measures recording and alerting rules over many series that arrive each minute.
//!
//! Any server is measured by its protocol: it runs already, with the rules of [`rule_file`]. Each minute one
//! sample of each series is pushed by remote write, spread over the minute. CPU time and memory are measured
//! after a time in which ranges of the rules fill.
//!
//! **Invariant.** A push that is late by more than a second is counted: a server that cannot keep up with the
//! load is not measured under a smaller one without a word.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use sandur_base::units::ByteSize;
use sandur_runtime::Env;

use super::scrape::Scrape;
use super::series_client::push;
use super::server::Process;
use crate::http::Connection;
use crate::push_body::SampledSeries;

/// Rules of a group.
const GROUP_RULES: u64 = 100;
/// The interval of groups and of samples, in seconds.
const INTERVAL_S: u64 = 60;
/// Jobs of a metric, of which each has a rule of its own.
const JOBS: u64 = 10;
/// Zones of the series of a rule, which are the series of its result.
const ZONES: u64 = 5;

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct Rules {
    /// `HOST:PORT` of remote write.
    pub address: String,
    /// `HOST:PORT` of the metrics of what evaluates rules.
    pub evaluator: String,
    /// The processes of the server.
    pub processes: Vec<Process>,
    /// The number of series.
    pub series: u64,
    /// The number of rules; each reads an equal part of the series.
    pub rules: u64,
    /// How long data arrives before it is measured.
    pub before: Duration,
    /// How long it is measured.
    pub length: Duration,
}

/// The rule file: every other rule records, the others are alerts that do not fire.
pub fn rule_file(rules: u64) -> String {
    let mut text = "groups:\n".to_owned();
    for rule in 0..rules {
        if rule % GROUP_RULES == 0 {
            let _ = writeln!(text, "- name: g{}\n  interval: {INTERVAL_S}s\n  rules:", rule / GROUP_RULES);
        }
        let (metric, job) = (rule / JOBS, rule % JOBS);
        let rate = format!("sum by (zone) (rate(metric_{metric:05}{{job=\"job-{job}\"}}[5m]))");
        let _ = match rule % 2 {
            0 => writeln!(
                text,
                "  - {{record: 'job:rate5m', expr: '{rate}', labels: {{of: 'm{metric}', job: 'job-{job}'}}}}"
            ),
            _ => writeln!(text, "  - {{alert: Many{rule}, expr: '{rate} > 1e9', for: 5m}}"),
        };
    }
    text
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct RulesReport {
    seconds: f64,
    cpu: Vec<f64>,
    resident: Vec<u64>,
    late_pushes: u64,
    missed: f64,
    failed: f64,
    evaluated: f64,
    lateness: Option<f64>,
}

impl RulesReport {
    /// The figures as text.
    pub fn text(&self) -> String {
        let sum = |all: &[f64]| all.iter().sum::<f64>();
        let each: Vec<String> = self.cpu.iter().map(|cpu| format!("{cpu:.1}")).collect();
        let memory: Vec<String> = self.resident.iter().map(|bytes| ByteSize(*bytes).to_string()).collect();
        let lateness = self.lateness.map_or_else(|| "not shown".to_owned(), |s| format!("<= {s} s"));
        format!(
            "CPU seconds per minute: {:.2} ({} in {:.0} s, by process)\nresident at most: {}\n\
             evaluations of rules: {:.0}, failed: {:.0}, of groups missed: {:.0}\nlateness of groups, p99: \
             {lateness}\npushes late by more than a second: {}\n",
            sum(&self.cpu) * 60.0 / self.seconds.max(1.0),
            each.join(" + "),
            self.seconds,
            memory.join(" + "),
            self.evaluated,
            self.failed,
            self.missed,
            self.late_pushes
        )
    }
}

/// Runs the measurement. `report` is called with progress messages.
pub async fn rules(env: &Env, plan: &Rules, report: impl Fn(&str)) -> Result<RulesReport> {
    if plan.rules == 0 || plan.series < plan.rules {
        bail!("there must be a rule, and a series for each");
    }
    report(&format!("pushing {} series each minute", plan.series));
    let begun = env.monotonic();
    arrive(env, plan, begun, (0, plan.before)).await?;
    let mut connection = Connection::new(&plan.evaluator);
    let before = Scrape::take(&mut connection)?;
    plan.processes.iter().for_each(|process| drop(process.reset_resident_peak()));
    let cpu_before: Vec<f64> = plan.processes.iter().map(|process| process.cpu_seconds()).collect();
    let from = env.monotonic();
    report("measuring");
    let late_pushes = arrive(env, plan, begun, (plan.before.as_secs(), plan.before + plan.length)).await?;
    let seconds = (env.monotonic() - from).as_secs_f64();
    let cpu = plan.processes.iter().zip(cpu_before).map(|(process, before)| process.cpu_seconds() - before);
    let cpu = cpu.collect();
    let after = Scrape::take(&mut connection)?;
    let grown = |names: &[&str]| names.iter().map(|name| after.sum(name) - before.sum(name)).sum::<f64>();
    Ok(RulesReport {
        seconds,
        cpu,
        resident: plan.processes.iter().map(|process| process.resident_peak_bytes()).collect(),
        late_pushes,
        missed: grown(&[
            "sandur_rules_missed_evaluations_total",
            "prometheus_rule_group_iterations_missed_total",
            "vmalert_iteration_missed_total",
        ]),
        failed: grown(&[
            "sandur_rules_evaluation_failures_total",
            "prometheus_rule_evaluation_failures_total",
            "vmalert_execution_errors_total",
        ]),
        evaluated: grown(&[
            "sandur_rules_evaluations_total",
            "prometheus_rule_evaluations_total",
            "vmalert_execution_total",
        ]),
        lateness: after.quantile_since(&before, "sandur_rules_group_lateness_seconds", 0.99),
    })
}

/// Pushes what arrives from one time to another, relative to the begin. Returns the number of late pushes.
async fn arrive(env: &Env, plan: &Rules, begun: Duration, (from_s, until): (u64, Duration)) -> Result<u64> {
    let mut late = 0;
    for second in from_s..until.as_secs() {
        let due = begun + Duration::from_secs(second);
        match due.checked_sub(env.monotonic()) {
            Some(left) => env.sleep(left).await,
            None => late += u64::from(env.monotonic() - due > Duration::from_secs(1)),
        }
        let part = second % INTERVAL_S;
        let bound = |part: u64| plan.series * part / INTERVAL_S;
        let now_ms = env.now_ns() / 1_000_000;
        let minute = second / INTERVAL_S;
        let numbers = bound(part)..bound(part + 1);
        push(env, &plan.address, numbers, |number| series(plan, number, (now_ms, minute)))?;
    }
    Ok(late)
}

/// The series of a rule are neighbours: those of a job of a metric.
fn series(plan: &Rules, number: u64, (now_ms, minute): (i64, u64)) -> SampledSeries {
    let of_rule = (plan.series / plan.rules).max(1);
    let (rule, instance) = (number / of_rule, number % of_rule);
    let job = format!("job-{}", rule % JOBS);
    let labels = [
        ("__name__", format!("metric_{:05}", rule / JOBS)),
        ("instance", format!("{job}-{instance:05}")),
        ("job", job),
        ("zone", format!("zone-{}", instance % ZONES)),
    ];
    SampledSeries { labels: labels.to_vec(), samples: vec![(now_ms, (minute * (number % 97)) as f64)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_file_has_all_rules_in_groups() {
        let text = rule_file(250);
        let count = |what: &str| text.matches(what).count();
        assert_eq!((count("- name: "), count("record: "), count("alert: ")), (3, 125, 125));
    }
}
