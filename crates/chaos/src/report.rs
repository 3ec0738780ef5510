//! What happened when, and the table of a run.
//!
//! A wait counts for each kind of fault during which, or shortly after which, it was under way. Faults
//! overlap, so a long wait may stand in several lines of the table.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::plan::{KINDS, Kind, name};

/// How long after its end a fault is considered the cause of a wait.
const AFTERMATH: Duration = Duration::from_secs(3);
/// Shorter waits are not kept.
const NOTABLE: Duration = Duration::from_millis(50);
/// The most findings that are kept. One is enough for a run to fail.
const FINDINGS_MAX: usize = 50;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// From the first attempt of a query until some node answered.
    Query,
    /// From the first attempt of a push until some node acknowledged it.
    Acknowledgement,
    /// How old the oldest missing row of an answer without a warning was.
    Age,
}

#[derive(Default)]
struct Log {
    faults: Vec<(Kind, Instant, Option<Instant>)>,
    waits: Vec<(Wait, Instant, Duration)>,
    findings: Vec<String>,
    queries: u64,
    warned: u64,
    failed: u64,
}

/// Collects what happens, from all threads.
#[derive(Default)]
pub struct Timeline(Mutex<Log>);

impl Timeline {
    /// Notes the beginning of a fault. Returns its place for [`Timeline::ended`].
    pub fn began(&self, kind: Kind, at: Instant) -> usize {
        let mut log = self.log();
        log.faults.push((kind, at, None));
        log.faults.len() - 1
    }

    /// Notes the end of a fault.
    pub fn ended(&self, place: usize, at: Instant) {
        self.log().faults[place].2 = Some(at);
    }

    /// Notes a wait that began at an instant.
    pub fn waited(&self, wait: Wait, began: Instant, length: Duration) {
        if length >= NOTABLE {
            self.log().waits.push((wait, began, length));
        }
    }

    /// Notes an answer.
    pub fn answered(&self, is_warned: bool) {
        let mut log = self.log();
        log.queries += 1;
        log.warned += u64::from(is_warned);
    }

    /// Notes that a node did not answer a query, or refused it.
    pub fn failed(&self) {
        self.log().failed += 1;
    }

    /// Notes something that is wrong.
    pub fn finding(&self, what: String) {
        let mut log = self.log();
        if log.findings.len() < FINDINGS_MAX {
            log.findings.push(what);
        }
    }

    /// Whether something was wrong.
    pub fn has_findings(&self) -> bool {
        !self.log().findings.is_empty()
    }

    /// The verdict so far.
    pub fn verdict(&self) -> Verdict {
        let log = self.log();
        let rows = KINDS.map(|(kind, _)| {
            let spans: Vec<(Instant, Instant)> = log
                .faults
                .iter()
                .filter(|(of, ..)| *of == kind)
                .map(|(_, from, to)| span(*from, *to))
                .collect();
            let longest = |wanted: Wait| {
                let of_kind = log.waits.iter().filter(|(wait, began, length)| {
                    // An age ends with the query, a wait begins with it.
                    let until = if wanted == Wait::Age { *began } else { *began + *length };
                    *wait == wanted && spans.iter().any(|(from, to)| *began <= *to && until >= *from)
                });
                of_kind.map(|(.., length)| *length).max().unwrap_or_default()
            };
            TableRow {
                kind,
                count: spans.len(),
                query: longest(Wait::Query),
                acknowledgement: longest(Wait::Acknowledgement),
                age: longest(Wait::Age),
            }
        });
        Verdict {
            rows: rows.into(),
            findings: log.findings.clone(),
            queries: log.queries,
            warned: log.warned,
            failed: log.failed,
            sent: 0,
            acknowledged: 0,
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn span(from: Instant, to: Option<Instant>) -> (Instant, Instant) {
    // A fault without an end lasts as long as any run.
    (from, to.unwrap_or(from + Duration::from_secs(86_400)) + AFTERMATH)
}

struct TableRow {
    kind: Kind,
    count: usize,
    query: Duration,
    acknowledgement: Duration,
    age: Duration,
}

/// The result of a run.
pub struct Verdict {
    rows: Vec<TableRow>,
    /// What was wrong.
    pub findings: Vec<String>,
    /// Answers of all kinds.
    pub queries: u64,
    /// Answers that said that rows may be missing.
    pub warned: u64,
    /// Requests that a node did not answer, or refused.
    pub failed: u64,
    /// Rows that were sent.
    pub sent: usize,
    /// Rows that were acknowledged.
    pub acknowledged: usize,
}

impl Verdict {
    /// The table: a line for each kind of fault that occurred.
    pub fn table(&self) -> String {
        let heads = ["longest failing query", "longest wait for ack", "oldest without warning"];
        let mut text =
            format!("{:<22}{:>5}{:>23}{:>22}{:>24}\n", "fault", "count", heads[0], heads[1], heads[2]);
        for row in self.rows.iter().filter(|row| row.count > 0) {
            let [query, acknowledgement, age] =
                [row.query, row.acknowledgement, row.age].map(|wait| format!("{:.1} s", wait.as_secs_f64()));
            text +=
                &format!("{:<22}{:>5}{query:>23}{acknowledgement:>22}{age:>24}\n", name(row.kind), row.count);
        }
        text += &format!(
            "{} rows sent, {} acknowledged; {} answers, {} with a warning; {} requests failed\n",
            self.sent, self.acknowledged, self.queries, self.warned, self.failed
        );
        text
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // real time, outside of the product
mod tests {
    use super::*;

    #[test]
    fn waits_count_for_the_faults_at_their_time() {
        let (timeline, start) = (Timeline::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let kill = timeline.began(Kind::Kill, at(100));
        timeline.ended(kill, at(105));
        timeline.began(Kind::Pause, at(200));
        timeline.waited(Wait::Query, at(50), Duration::from_secs(9));
        timeline.waited(Wait::Query, at(98), Duration::from_secs(3));
        timeline.waited(Wait::Acknowledgement, at(107), Duration::from_secs(4));
        timeline.waited(Wait::Age, at(210), Duration::from_secs(2));
        timeline.answered(true);
        let table = timeline.verdict().table();
        let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        let words = |name: &str| line(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words("kill -9")[2..], ["1", "3.0", "s", "4.0", "s", "0.0", "s"]);
        assert_eq!(words("SIGSTOP")[1..], ["1", "0.0", "s", "0.0", "s", "2.0", "s"]);
        assert!(!table.contains("SIGTERM") && table.contains("1 answers, 1 with a warning"), "{table}");
    }
}
