//! What was sent, what was acknowledged and when, and the judgement of answers.
//!
//! Invariant: a row is noted before it is sent, and its acknowledgement after it was received. Therefore an
//! answer cannot contain a row that is not noted, and must contain each row whose acknowledgement is noted
//! long enough before the query began.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How old an answer without a warning may be: `query.max_view_age`.
pub const PERMITTED_AGE: Duration = Duration::from_secs(5);
/// The number of rows that a finding names.
const SHOWN: usize = 3;

/// What identifies a row within its signal: series, time and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub at_ns: i64,
    pub series: u32,
    pub id: u64,
}

/// Times in nanoseconds. Rows at the ends may or may not belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from_ns: i64,
    pub to_ns: i64,
}

impl Window {
    fn surely_has(self, row: &Row) -> bool {
        self.from_ns < row.at_ns && row.at_ns < self.to_ns
    }

    fn may_have(self, row: &Row) -> bool {
        self.from_ns <= row.at_ns && row.at_ns <= self.to_ns
    }
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The rows of a window.
    Rows(Window, Vec<Row>),
    /// Numbers of rows in windows.
    Counts(Vec<(Window, u64)>),
}

/// How a query was asked and answered.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub began: Instant,
    /// Rows whose acknowledgement is that much older than the beginning must be there.
    pub permitted_age: Duration,
    pub is_warned: bool,
}

/// The rows of one signal.
#[derive(Default)]
pub struct Ledger(Mutex<Vec<Noted>>);

struct Noted {
    row: Row,
    acknowledged: Option<Instant>,
}

impl Ledger {
    /// Notes rows that are about to be sent. Returns their place for [`Ledger::acknowledge`].
    pub fn note(&self, rows: &[Row]) -> usize {
        let mut noted = self.noted();
        noted.extend(rows.iter().map(|&row| Noted { row, acknowledged: None }));
        noted.len() - rows.len()
    }

    /// Notes that `count` rows from a place on are acknowledged now.
    #[allow(clippy::disallowed_methods)] // real time, outside of the product
    pub fn acknowledge(&self, place: usize, count: usize) {
        let now = Some(Instant::now());
        self.noted()[place..place + count].iter_mut().for_each(|noted| noted.acknowledged = now);
    }

    /// Numbers of rows that were sent and acknowledged.
    pub fn counts(&self) -> (usize, usize) {
        let noted = self.noted();
        (noted.len(), noted.iter().filter(|noted| noted.acknowledged.is_some()).count())
    }

    /// Compares an answer. Returns how old the oldest row is that it lacks, or what is wrong.
    pub fn judge(&self, found: &Found, asked: Asked) -> Result<Duration, String> {
        match found {
            Found::Rows(window, rows) => self.judge_rows(*window, rows, asked),
            Found::Counts(counts) => {
                let ages = counts.iter().map(|(window, count)| self.judge_count(*window, *count, asked));
                ages.collect::<Result<Vec<_>, _>>().map(|ages| ages.into_iter().max().unwrap_or_default())
            }
        }
    }

    fn judge_rows(&self, window: Window, rows: &[Row], asked: Asked) -> Result<Duration, String> {
        let mut counts: HashMap<&Row, usize> = HashMap::new();
        rows.iter().for_each(|row| *counts.entry(row).or_default() += 1);
        let doubled = counts.iter().filter(|(_, count)| **count > 1).map(|(row, _)| **row);
        refuse("rows that are found twice", doubled)?;
        let noted = self.noted();
        let mut missing: Vec<(Row, Instant)> = Vec::new();
        for Noted { row, acknowledged } in noted.iter().filter(|noted| window.may_have(&noted.row)) {
            match (counts.remove(row), acknowledged) {
                (None, Some(at)) if window.surely_has(row) => missing.push((*row, *at)),
                _ => {}
            }
        }
        refuse("rows that nobody sent, or of another window", counts.into_keys().copied())?;
        let age = |at: Instant| asked.began.saturating_duration_since(at);
        if !asked.is_warned {
            let overdue = missing.iter().filter(|(_, at)| age(*at) > asked.permitted_age);
            let oldest = overdue.clone().map(|(_, at)| age(*at)).max().unwrap_or_default();
            let what = format!("no warning, and acknowledged rows are missing, the oldest for {oldest:.2?}");
            refuse(&what, overdue.map(|(row, _)| *row))?;
        }
        Ok(missing.iter().map(|(_, at)| age(*at)).max().unwrap_or_default())
    }

    fn judge_count(&self, window: Window, count: u64, asked: Asked) -> Result<Duration, String> {
        let noted = self.noted();
        let sent = noted.iter().filter(|noted| window.may_have(&noted.row)).count() as u64;
        if count > sent {
            return Err(format!("{count} rows of {sent} that were sent in {window:?}"));
        }
        let age = |at: &Instant| asked.began.saturating_duration_since(*at);
        let inside = noted.iter().filter(|noted| window.surely_has(&noted.row));
        let mut ages: Vec<Duration> =
            inside.filter_map(|noted| noted.acknowledged.as_ref().map(age)).collect();
        ages.sort();
        let due = ages.iter().filter(|age| **age > asked.permitted_age).count() as u64;
        if count < due && !asked.is_warned {
            return Err(format!("no warning, and {count} rows of {due} that must be in {window:?}"));
        }
        // Which rows are missing is not known: at best the newest ones.
        let lacks = ages.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(lacks.checked_sub(1).map_or(Duration::ZERO, |last| ages[last]))
    }

    /// The windows of a length, from the first row to the last one. They begin at multiples of a step, and
    /// each begins in the last step of the one before: rows at the end of one are inside the next one.
    pub fn windows(&self, length: Duration) -> Vec<Window> {
        let noted = self.noted();
        let times = || noted.iter().map(|noted| noted.row.at_ns);
        let (Some(first), Some(last)) = (times().min(), times().max()) else { return Vec::new() };
        let length = i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
        let mut windows = Vec::new();
        let mut from_ns = (first / STEP_NS - 1) * STEP_NS;
        while from_ns <= last {
            windows.push(Window { from_ns, to_ns: from_ns + length });
            from_ns += (length - STEP_NS).max(STEP_NS);
        }
        windows
    }

    fn noted(&self) -> MutexGuard<'_, Vec<Noted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nanoseconds of a second.
pub const SECOND_NS: i64 = 1_000_000_000;
/// The step of counts.
pub const STEP_NS: i64 = 10 * SECOND_NS;

/// Refuses if there are such rows, and names some of them.
fn refuse(what: &str, rows: impl Iterator<Item = Row>) -> Result<(), String> {
    let mut rows: Vec<Row> = rows.collect();
    rows.sort();
    match rows.len() {
        0 => Ok(()),
        count => Err(format!("{what}: {count}, such as {:?}", &rows[..count.min(SHOWN)])),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // real time, outside of the product
mod tests {
    use super::*;

    const ALL: Window = Window { from_ns: 0, to_ns: 100 };

    fn row(id: u64) -> Row {
        Row { at_ns: 10 + id as i64, series: 0, id }
    }

    fn ledger() -> Ledger {
        let ledger = Ledger::default();
        ledger.note(&[row(1), row(2), row(3)]);
        ledger.acknowledge(0, 2);
        ledger
    }

    fn asked(permitted_age: Duration, is_warned: bool) -> Asked {
        Asked { began: Instant::now() + Duration::from_secs(3), permitted_age, is_warned }
    }

    #[test]
    fn silently_stale_doubled_and_invented_rows_are_found() {
        let (ledger, old, strict) = (ledger(), Duration::from_secs(5), Duration::ZERO);
        let judge = |rows: &[Row], age, is_warned| {
            ledger.judge(&Found::Rows(ALL, rows.to_vec()), asked(age, is_warned)).map_err(|what| what.len())
        };
        assert_eq!(judge(&[row(1), row(2)], strict, false), Ok(Duration::ZERO));
        assert_eq!(judge(&[row(2), row(1), row(3)], strict, false), Ok(Duration::ZERO), "not acknowledged");
        assert!(judge(&[row(1)], strict, false).is_err(), "missing");
        assert!(judge(&[row(1)], strict, true).unwrap() >= Duration::from_secs(3), "but it says so");
        assert!(judge(&[row(1)], old, false).is_ok(), "not old enough");
        for is_warned in [true, false] {
            assert!(judge(&[row(1), row(2), row(2)], old, is_warned).is_err(), "twice");
            assert!(judge(&[row(1), row(2), row(4)], old, is_warned).is_err(), "invented");
        }
    }

    #[test]
    fn counts_have_bounds() {
        let (ledger, strict) = (ledger(), Duration::ZERO);
        let judge = |count, is_warned| {
            ledger.judge(&Found::Counts(vec![(ALL, count)]), asked(strict, is_warned)).is_ok()
        };
        assert_eq!([0, 1, 2, 3, 4].map(|count| judge(count, false)), [false, false, true, true, false]);
        assert_eq!([0, 3, 4].map(|count| judge(count, true)), [true, true, false]);
        // A row at the end of a window may be in it or not.
        let edge = Window { from_ns: 0, to_ns: row(1).at_ns };
        for count in [0, 1] {
            let found = Found::Counts(vec![(edge, count)]);
            assert!(ledger.judge(&found, asked(strict, false)).is_ok());
        }
    }
}
