//! The query of a delete request: it selects the rows to delete.
//!
//! The rules are Loki's: a log selector with any stages; `{}` and matchers that match the empty value are
//! allowed; a row is selected if it passes all stages. Every parse error has the same text.

use std::ops::Range;

use sandur_model::{LineColumn, LogPage, Matcher};
use sandur_query::{Error, Needles, RowLook, RowSelector};

use crate::ast::Expr;
use crate::parser::parse_unchecked;
use crate::pipeline::{Pipeline, Worker, passes};
use crate::row::{Row, RunLabels};

/// The compiled query of a delete request.
pub struct DeleteQuery {
    pipeline: Pipeline,
    needles: Needles,
    memory_bytes: u64,
}

impl DeleteQuery {
    /// Parses and compiles the query.
    pub fn new(text: &str) -> Result<Self, Error> {
        let parsed = parse_unchecked(text).ok().filter(|expr| matches!(expr, Expr::Log(_)));
        let parsed = parsed.ok_or_else(|| Error::Invalid("invalid query expression".to_owned()))?;
        let memory_bytes = parsed.memory_bytes() + text.len() as u64;
        let log = parsed.log_expressions()[0];
        let wanted = log.stages.iter().flat_map(|stage| stage.reads()).collect();
        let pipeline = Pipeline::new(log, Some(wanted));
        // Compiled here, so that all memory that is kept is charged to the job that compiles it.
        pipeline.filters.iter().for_each(|filter| _ = filter.search());
        Ok(Self { needles: pipeline.needles(), pipeline, memory_bytes })
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

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    fn look(&self) -> Box<dyn RowLook + '_> {
        Box::new(self.pipeline.start())
    }
}

impl RowLook for Worker {
    fn select(
        &mut self,
        page: &LogPage,
        lines: &LineColumn,
        run: usize,
        rows: Range<u32>,
        out: &mut Vec<u32>,
    ) {
        let selected = Worker::select(self, Some(lines), rows);
        let Worker { stages, wanted, scratch, .. } = self;
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
        self.give_back(selected);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sandur_memory::{MemoryBudget, job};
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
    fn rows_that_pass_are_selected() {
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
            let mut look = compiled.look();
            for round in 0..2 {
                let mut rows = Vec::new();
                look.select(&page, &lines, 0, 1..4, &mut rows);
                assert_eq!(rows, expected, "{query}, round {round}");
            }
            // Lines are read anyway here, so an automaton would not save anything.
            assert!(!compiled.pipeline.filters.iter().any(|filter| filter.has_made_automaton()), "{query}");
        }
        assert!(!DeleteQuery::new(r#"{app="a"} |= "4111-1111-1111""#).unwrap().needles().0.is_empty());
    }

    /// Neither the compiled query nor the state of its workers was charged to a budget.
    #[test]
    fn a_compiled_query_is_charged_to_the_job_that_compiles_it_until_it_is_dropped() {
        let large = r#"{app="a"} |~ "(?i)[\\pL\\pN]{1,40}" | line_format "{{__line__}}""#;
        let compile = |bytes: u64| {
            let budget = MemoryBudget::root("filter", bytes);
            let owner = job::Bounded::new(budget.clone());
            (job::run(owner, || DeleteQuery::new(large).ok()), budget)
        };
        let (compiled, budget) = compile(64 << 20);
        let compiled = compiled.unwrap().unwrap();
        let held = budget.used();
        assert!(held > 1 << 20, "{held}");
        let (page, lines) = page(&["user=1", "user=2"]);
        for _ in 0..3 {
            let mut rows = Vec::new();
            compiled.look().select(&page, &lines, 0, 0..2, &mut rows);
            assert_eq!((rows.len(), budget.used()), (2, held));
        }
        drop(compiled);
        assert_eq!(budget.used(), 0);
        let (compiled, budget) = compile(1 << 20);
        assert!(compiled.is_err() && budget.used() == 0 && budget.peak() <= 1 << 20);
    }

    #[test]
    fn every_invalid_text_has_the_same_error() {
        for text in ["", "{", r#"count_over_time({app="a"}[1m])"#, "vector(1)", r#"{app="a"} | nosuch"#] {
            let refused = DeleteQuery::new(text).err().map(|error| error.to_string());
            assert_eq!(refused.as_deref(), Some("invalid query expression"), "{text}");
        }
    }
}
