//! Pages through more lines than a server returns at once. The next page begins at the last instant of
//! the previous one, and rows of that instant that were shown are skipped.
//!
//! A page requests additional rows, as many as were shown of its first instant. So each page makes
//! progress whichever rows of that instant the server returns, and no row is lost or repeated. Only an
//! instant with more lines than the server's limit cannot be passed; that is an error.

use std::cmp::Reverse;
use std::collections::HashMap;

use sandur_terminal::Failed;

use super::moment::Window;
use super::results::{LabelMap, Stream};

/// A row of a log answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// Labels.
    pub labels: LabelMap,
    /// The text of the line.
    pub line: String,
}

/// A page to request from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Start, inclusive, nanoseconds since the epoch.
    pub start: i64,
    /// End, exclusive, nanoseconds since the epoch.
    pub end: i64,
    /// Maximum number of rows.
    pub limit: u64,
}

/// The progress of a query.
pub struct Paging {
    window: Window,
    forward: bool,
    /// Rows that may still be shown; `None`: no limit.
    left: Option<u64>,
    /// Rows per page.
    batch: u64,
    /// The server's limit, once it has refused a page.
    most: Option<u64>,
    /// The rows shown of the instant at which the next page begins, with their counts.
    edge: HashMap<(LabelMap, String), u64>,
    edge_rows: u64,
    done: bool,
}

impl Paging {
    /// Pages over a range: `limit` rows (0: all), in pages of `batch` rows.
    pub fn new(window: Window, forward: bool, limit: u64, batch: u64) -> Self {
        let left = (limit > 0).then_some(limit);
        let edge = HashMap::new();
        Self { window, forward, left, batch: batch.max(1), most: None, edge, edge_rows: 0, done: false }
    }

    /// Whether the query is complete.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the limit of rows was reached.
    pub fn reached_limit(&self) -> bool {
        self.left == Some(0)
    }

    /// The next page to request.
    pub fn ask(&self) -> Result<Ask, Failed> {
        let wanted = self.left.map_or(self.batch, |left| left.min(self.batch)) + self.edge_rows;
        let limit = self.most.map_or(wanted, |most| wanted.min(most));
        if limit <= self.edge_rows {
            let edge = if self.forward { self.window.start } else { self.window.end - 1 };
            return Err(Failed::new(format!(
                "more than {limit} lines have the same timestamp, {}, and the server returns no more at \
                 once: narrow the query, or raise max_entries_limit_per_query on the server",
                self.window.zone.show_exactly(edge)
            )));
        }
        Ok(Ask { start: self.window.start, end: self.window.end, limit })
    }

    /// Handles a refusal because of the limit. Returns false if the refusal has another reason.
    pub fn learn_limit(&mut self, asked: Ask, refusal: &str) -> bool {
        let Some(most) = server_limit(refusal).filter(|most| *most < asked.limit && *most > 0) else {
            return false;
        };
        self.most = Some(most);
        true
    }

    /// Adds the answer of a page. Returns its rows that were not shown yet, in order.
    pub fn take(&mut self, asked: Ask, streams: Vec<Stream>) -> Vec<Row> {
        let mut rows = rows(streams);
        if self.forward {
            rows.sort_by_key(|row| row.timestamp);
        } else {
            rows.sort_by_key(|row| Reverse(row.timestamp));
        }
        let is_last = (rows.len() as u64) < asked.limit;
        let before = if self.forward { asked.start } else { asked.end.saturating_sub(1) };
        let mut shown = self.edge.clone();
        rows.retain(|row| row.timestamp != before || !take_one(&mut shown, row));
        if let Some(left) = &mut self.left {
            rows.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= rows.len() as u64;
        }
        self.done = is_last || self.left == Some(0) || rows.is_empty();
        if let Some(last) = rows.last() {
            self.move_edge(last.timestamp, before, &rows);
        }
        rows
    }

    fn move_edge(&mut self, instant: i64, before: i64, rows: &[Row]) {
        if instant != before {
            self.edge.clear();
            self.edge_rows = 0;
        }
        for row in rows.iter().filter(|row| row.timestamp == instant) {
            *self.edge.entry((row.labels.clone(), row.line.clone())).or_default() += 1;
            self.edge_rows += 1;
        }
        if self.forward {
            self.window.start = instant;
        } else {
            self.window.end = instant.saturating_add(1);
        }
    }
}

fn take_one(shown: &mut HashMap<(LabelMap, String), u64>, row: &Row) -> bool {
    match shown.get_mut(&(row.labels.clone(), row.line.clone())) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}

/// All rows of an answer, in its order.
pub fn rows(streams: Vec<Stream>) -> Vec<Row> {
    let mut all = Vec::new();
    for stream in streams {
        for (timestamp, line) in stream.values {
            let timestamp = timestamp.parse().unwrap_or(0);
            all.push(Row { timestamp, labels: stream.stream.clone(), line });
        }
    }
    all
}

/// The server's limit in a refusal with Loki's text: `.. limit > max_entries_limit_per_query (1000 >
/// 500)`.
fn server_limit(refusal: &str) -> Option<u64> {
    let (_, pair) = refusal.split_once("max_entries_limit_per_query (")?;
    let (_, most) = pair.split_once(')')?.0.split_once(" > ")?;
    most.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Zone;

    /// A server that returns at most `most` rows. Which rows of an instant it returns changes with
    /// `turn`.
    struct Server {
        rows: Vec<Row>,
        most: u64,
        turn: usize,
        asked: Vec<Ask>,
    }

    impl Server {
        /// A server with `count` rows of two streams, `every` of them at each instant.
        fn new(count: usize, every: usize, most: u64) -> Self {
            let row = |n: usize| Row {
                timestamp: 1_000 + (n / every) as i64,
                labels: LabelMap::from([("app".to_owned(), (n % 2).to_string())]),
                // Few different lines, so that rows of one instant may be equal.
                line: format!("line {}", n % 3),
            };
            Self { rows: (0..count).map(row).collect(), most, turn: 0, asked: Vec::new() }
        }

        fn answer(&mut self, ask: Ask, forward: bool) -> Result<Vec<Stream>, String> {
            if ask.limit > self.most {
                let (asked, most) = (ask.limit, self.most);
                return Err(format!(
                    "max entries limit per query exceeded, limit > max_entries_limit_per_query \
                     ({asked} > {most})\n"
                ));
            }
            self.asked.push(ask);
            // Rotate the rows, so that the first rows of an instant differ each time.
            self.turn += 1;
            let length = self.rows.len().max(1);
            self.rows.rotate_left(self.turn % length);
            let mut found: Vec<&Row> =
                self.rows.iter().filter(|r| r.timestamp >= ask.start && r.timestamp < ask.end).collect();
            found.sort_by_key(|r| if forward { r.timestamp } else { -r.timestamp });
            found.truncate(ask.limit as usize);
            Ok(found
                .iter()
                .map(|r| Stream {
                    stream: r.labels.clone(),
                    values: vec![(r.timestamp.to_string(), r.line.clone())],
                })
                .collect())
        }
    }

    fn run(server: &mut Server, forward: bool, limit: u64, batch: u64) -> Result<(Vec<Row>, bool), String> {
        let window = Window { start: 0, end: i64::MAX, zone: Zone::utc() };
        let mut paging = Paging::new(window, forward, limit, batch);
        let mut all = Vec::new();
        while !paging.is_done() {
            let ask = paging.ask().map_err(|e| e.message().to_owned())?;
            match server.answer(ask, forward) {
                Ok(streams) => all.extend(paging.take(ask, streams)),
                Err(refusal) => assert!(paging.learn_limit(ask, &refusal), "{refusal}"),
            }
        }
        Ok((all, paging.reached_limit()))
    }

    fn sorted(rows: &[Row]) -> Vec<(i64, String, String)> {
        let key = |r: &Row| (r.timestamp, format!("{:?}", r.labels), r.line.clone());
        let mut all: Vec<_> = rows.iter().map(key).collect();
        all.sort();
        all
    }

    #[test]
    fn pages_lose_no_row_and_repeat_none() {
        for (count, every) in [(0, 1), (1, 1), (100, 1), (100, 7), (1_000, 40), (60, 60)] {
            for batch in [1, 3, 50, 1_000] {
                for forward in [false, true] {
                    let mut server = Server::new(count, every, 5_000);
                    let all = sorted(&server.rows);
                    let (found, reached) = run(&mut server, forward, 0, batch).unwrap();
                    assert_eq!(
                        sorted(&found),
                        all,
                        "{count} rows, {every} an instant, by {batch}, {forward}"
                    );
                    assert!(!reached);
                    let times: Vec<i64> = found.iter().map(|r| r.timestamp).collect();
                    let rises = times.is_sorted();
                    let falls = times.iter().rev().is_sorted();
                    assert!(if forward { rises } else { falls });
                }
            }
        }
    }

    #[test]
    fn the_limit_is_exact_and_reported() {
        for limit in [1, 10, 99, 100] {
            let (found, reached) = run(&mut Server::new(100, 7, 5_000), false, limit, 30).unwrap();
            assert_eq!((found.len() as u64, reached), (limit, true));
        }
        let (found, reached) = run(&mut Server::new(100, 7, 5_000), false, 101, 30).unwrap();
        assert_eq!((found.len(), reached), (100, false));
    }

    #[test]
    fn the_servers_limit_is_learnt_from_its_refusal() {
        let mut server = Server::new(100, 1, 10);
        let (found, _) = run(&mut server, true, 0, 1_000).unwrap();
        assert_eq!(found.len(), 100);
        assert!(server.asked.iter().all(|ask| ask.limit == 10));
        // A page that is not full is the last; the rest of the range is not requested.
        let mut server = Server::new(5, 1, 10);
        run(&mut server, true, 0, 10).unwrap();
        assert_eq!(server.asked.len(), 1);
    }

    #[test]
    fn an_instant_with_more_rows_than_the_servers_limit_is_an_error_with_a_remedy() {
        let error = run(&mut Server::new(60, 60, 50), false, 0, 20).unwrap_err();
        assert!(
            error.contains("more than 50 lines have the same timestamp, 1970-01-01T00:00:00.000001Z"),
            "{error}"
        );
        assert!(error.contains("max_entries_limit_per_query"), "{error}");
    }

    #[test]
    fn other_refusals_are_not_taken_for_the_limit() {
        let window = Window { start: 0, end: 9, zone: Zone::utc() };
        let mut paging = Paging::new(window, true, 0, 10);
        let ask = paging.ask().unwrap();
        for refusal in
            ["parse error", "max_entries_limit_per_query (x > y)", "max_entries_limit_per_query (10 > 10)"]
        {
            assert!(!paging.learn_limit(ask, refusal), "{refusal}");
        }
    }
}
