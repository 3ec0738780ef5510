//! A log query that runs over pages as they arrive, for following new rows.

use std::sync::{Mutex, PoisonError};

use sandur_model::{LogPage, Matcher};
use sandur_query::LogRow;

use crate::ast::LogExpr;
use crate::log_scan::log_row;
use crate::pipeline::{Pipeline, Worker, passes};
use crate::row::{Row, RunLabels};

/// A compiled log query.
pub struct LogQuery {
    pipeline: Pipeline,
    worker: Mutex<Worker>,
}

impl LogQuery {
    pub(crate) fn new(log: &LogExpr) -> Self {
        let pipeline = Pipeline::new(log, None);
        Self { worker: Mutex::new(pipeline.start()), pipeline }
    }

    /// The matchers of the stream selector.
    pub fn matchers(&self) -> &[Matcher] {
        &self.pipeline.matchers
    }

    /// Appends the rows of the page that pass, ordered by time. A page without lines has none. The caller
    /// has already selected the streams.
    pub fn process_page(&self, page: &LogPage, out: &mut Vec<LogRow>) {
        let Some(lines) = &page.lines else { return };
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let start = out.len();
        for run in &page.runs {
            let selected = worker.select(Some(lines), run.start..run.end);
            let Worker { stages, wanted, scratch, .. } = &mut *worker;
            let base = RunLabels::new(page, &run.labels, &mut scratch.names);
            let mut row = Row::new(page, &base, wanted, scratch);
            for &index in &selected {
                row.load(index as usize, lines.line(index as usize));
                if passes(stages, &mut row) {
                    out.push(log_row(&row, &run.labels));
                }
            }
            worker.give_back(selected);
        }
        out[start..].sort_by_key(|row| row.timestamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_model::{Labels, LineColumn, StreamRun};
    use std::sync::Arc;

    #[test]
    fn new_rows_pass_through_the_stages() {
        let run = |app: &str, start, end| StreamRun {
            labels: Arc::new(Labels::from_pairs([("app", app)])),
            start,
            end,
            suspect: None,
        };
        let page = LogPage {
            runs: vec![run("a", 0, 2), run("b", 2, 3)],
            timestamps: vec![10, 30, 20],
            lines: Some(LineColumn { bytes: "k=1 x\nk=2 x\nk=3 x\n".into(), ends: vec![5, 11, 17] }),
            ..LogPage::default()
        };
        let query = crate::compile_log_query(
            r#"{app=~".+"} |= "x" | logfmt | k != 1 | line_format "{{.app}}{{.k}}""#,
        )
        .unwrap();
        assert_eq!(query.matchers().len(), 1);
        let mut rows = Vec::new();
        query.process_page(&page, &mut rows);
        let lines: Vec<&[u8]> = rows.iter().map(|r| &*r.line).collect();
        assert_eq!(lines, [b"b3", b"a2"]);
        assert!(crate::compile_log_query("rate({a=\"b\"}[1m])").is_err());
    }
}
