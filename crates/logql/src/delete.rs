//! The query of a delete request: which rows it names.
//!
//! Loki's rules: a log selector with any stages; `{}` and matchers that match the empty value are allowed;
//! a row is named when it passes. Whatever is wrong with the text, the answer is the same five words.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use sandur_base::job::uncounted;
use sandur_model::{LineColumn, LogPage, Matcher};
use sandur_query::{Error, Needles, RowSelector};

use crate::ast::Expr;
use crate::parser::parse_unchecked;
use crate::pipeline::{Pipeline, Worker, passes};
use crate::row::{Row, RunLabels};

/// Bytes of names after which a worker is thrown away: lines may bring any number of keys.
const NAMES_BYTES_MAX: u64 = 1 << 20;

/// A compiled query of a delete request.
pub struct DeleteQuery {
    pipeline: Pipeline,
    needles: Needles,
    workers: Mutex<Vec<Worker>>,
}

impl DeleteQuery {
    /// Reads the text.
    pub fn new(text: &str) -> Result<Self, Error> {
        let Ok(Expr::Log(log)) = parse_unchecked(text) else {
            return Err(Error::Invalid("invalid query expression".to_owned()));
        };
        let wanted = log.stages.iter().flat_map(|stage| stage.reads()).collect();
        let pipeline = Pipeline::new(&log, Some(wanted));
        Ok(Self { needles: pipeline.needles(), pipeline, workers: Mutex::default() })
    }

    fn workers(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RowSelector for DeleteQuery {
    fn matchers(&self) -> &[Matcher] {
        &self.pipeline.matchers
    }

    fn looks_at_rows(&self) -> bool {
        !self.pipeline.filters.is_empty() || !self.pipeline.stages.is_empty()
    }

    fn needles(&self) -> &Needles {
        &self.needles
    }

    fn select(&self, page: &LogPage, lines: &LineColumn, run: usize, rows: Range<u32>, out: &mut Vec<u32>) {
        // Workers serve one query after another, so their memory belongs to none of them.
        uncounted(|| self.select_rows(page, lines, run, rows, out));
    }
}

impl DeleteQuery {
    fn select_rows(
        &self,
        page: &LogPage,
        lines: &LineColumn,
        run: usize,
        rows: Range<u32>,
        out: &mut Vec<u32>,
    ) {
        let kept = self.workers().pop();
        let mut worker = kept.unwrap_or_else(|| self.pipeline.start());
        let selected = worker.select(Some(lines), rows);
        let Worker { stages, wanted, scratch, .. } = &mut worker;
        if stages.is_empty() {
            out.extend_from_slice(&selected);
        } else {
            let base = RunLabels::new(page, &page.runs[run].labels, &mut scratch.names);
            let mut row = Row::new(page, &base, wanted, scratch);
            for &index in &selected {
                row.load(index as usize, lines.line(index as usize));
                if passes(stages, &mut row) {
                    out.push(index);
                }
            }
        }
        worker.give_back(selected);
        if worker.scratch.names.memory_bytes() < NAMES_BYTES_MAX {
            self.workers().push(worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sandur_model::{Labels, StreamRun};

    fn page(lines: &[&str]) -> (LogPage, LineColumn) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for line in lines {
            bytes.extend_from_slice(line.as_bytes());
            ends.push(bytes.len() as u32);
            bytes.push(b'\n');
        }
        let labels = Arc::new(Labels::from_pairs([("app", "a")]));
        let run = StreamRun { labels, start: 0, end: lines.len() as u32, suspect: None };
        let timestamps = (0..lines.len() as i64).collect();
        let page = LogPage { runs: vec![run], timestamps, ..LogPage::default() };
        (page, LineColumn { bytes: bytes.into(), ends })
    }

    #[test]
    fn rows_that_pass_are_named() {
        let (page, lines) = page(&["user=1 card=4", "user=2", "user=3 card=5", "card=4 user=1"]);
        for (query, reads, expected) in [
            (r#"{app="a"}"#, false, vec![1, 2, 3]),
            (r#"{}"#, false, vec![1, 2, 3]),
            (r#"{app="a"} |= """#, false, vec![1, 2, 3]),
            (r#"{app="a"} |= "card""#, true, vec![2, 3]),
            (r#"{app="a"} != "card""#, true, vec![1]),
            (r#"{app="a"} | logfmt | user="3""#, true, vec![2]),
            (r#"{app="a"} |= "card" | logfmt | card > 4"#, true, vec![2]),
            (r#"{app="a"} | logfmt | app="b""#, true, vec![]),
        ] {
            let compiled = DeleteQuery::new(query).unwrap();
            assert_eq!(compiled.looks_at_rows(), reads, "{query}");
            for round in 0..2 {
                let mut rows = Vec::new();
                compiled.select(&page, &lines, 0, 1..4, &mut rows);
                assert_eq!(rows, expected, "{query}, round {round}");
            }
            // Lines that are put together anyway need no automaton.
            assert!(!compiled.pipeline.filters.iter().any(|filter| filter.has_made_automaton()), "{query}");
        }
        assert!(!DeleteQuery::new(r#"{app="a"} |= "4111-1111-1111""#).unwrap().needles().0.is_empty());
    }

    #[test]
    fn every_other_text_is_refused_alike() {
        for text in ["", "{", r#"count_over_time({app="a"}[1m])"#, "vector(1)", r#"{app="a"} | nosuch"#] {
            let refused = DeleteQuery::new(text).err().map(|error| error.to_string());
            assert_eq!(refused.as_deref(), Some("invalid query expression"), "{text}");
        }
    }
}
