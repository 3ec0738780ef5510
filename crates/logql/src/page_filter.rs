//! Runs line filters over complete pages. A filter searches the bytes of many rows at once, and finds the
//! row only for a hit, so that an absent needle costs one pass over memory.

use std::ops::Range;

use sandur_model::LineColumn;

use crate::line_filter::LineFilter;
use crate::row_search::Search;

/// The line filters before all other stages.
pub struct PageFilter {
    filters: Vec<Prepared>,
    hits: Vec<u32>,
}

struct Prepared {
    filter: LineFilter,
    /// A copy for this worker, so that workers do not contend for it.
    search: Option<Search>,
}

impl PageFilter {
    /// A page filter for these line filters, in order.
    pub fn new(filters: impl Iterator<Item = LineFilter>) -> Self {
        let prepared = filters.filter(|f| !f.passes_all());
        let prepared = prepared.map(|filter| Prepared { search: filter.search().cloned(), filter });
        Self { filters: prepared.collect(), hits: Vec::new() }
    }

    /// Whether there are no filters.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Appends the rows of `rows` whose lines pass, in order.
    pub fn select(&mut self, lines: &LineColumn, rows: Range<u32>, out: &mut Vec<u32>) {
        if rows.is_empty() {
            return;
        }
        // The most selective search runs first: a positive one, if there is any.
        let first = self.filters.iter().position(|f| !f.filter.negated && f.search.is_some());
        let first = first.or_else(|| self.filters.iter().position(|f| f.search.is_some()));
        let start = out.len();
        let searched = first.is_some_and(|n| {
            self.hits.clear();
            let Prepared { filter, search } = &self.filters[n];
            let found = search.as_ref().is_some_and(|s| s.find_rows(lines, rows.clone(), &mut self.hits));
            if found {
                if filter.negated {
                    complement(&self.hits, rows.clone(), out);
                } else {
                    out.extend_from_slice(&self.hits);
                }
            }
            found
        });
        if !searched {
            out.extend(rows);
        }
        let rest = || self.filters.iter().enumerate().filter(|(n, _)| !searched || Some(*n) != first);
        if rest().next().is_none() {
            return;
        }
        let mut kept = start;
        for n in start..out.len() {
            let row = out[n];
            let line = lines.line(row as usize);
            if rest().all(|(_, f)| f.filter.passes(line)) {
                out[kept] = row;
                kept += 1;
            }
        }
        out.truncate(kept);
    }
}

fn complement(hits: &[u32], rows: Range<u32>, out: &mut Vec<u32>) {
    let mut next = rows.start;
    for &hit in hits {
        out.extend(next..hit);
        next = hit + 1;
    }
    out.extend(next..rows.end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse_log;

    fn column(lines: &[&str]) -> LineColumn {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for line in lines {
            bytes.extend_from_slice(line.as_bytes());
            ends.push(bytes.len() as u32);
            bytes.push(b'\n');
        }
        LineColumn { bytes: bytes.into(), ends }
    }

    fn check(filters: &str, lines: &[&str]) {
        let log = parse_log(&format!(r#"{{a="b"}} {filters}"#)).unwrap();
        let list: Vec<LineFilter> = log.stages.iter().map(|s| s.line_filter().unwrap().clone()).collect();
        let column = column(lines);
        for start in 0..lines.len() as u32 {
            for end in start..=lines.len() as u32 {
                let mut found = Vec::new();
                PageFilter::new(list.iter().cloned()).select(&column, start..end, &mut found);
                let passes = |row: &u32| list.iter().all(|f| f.passes(lines[*row as usize].as_bytes()));
                let expected: Vec<u32> = (start..end).filter(passes).collect();
                assert_eq!(found, expected, "{filters} on {start}..{end} of {lines:?}");
            }
        }
    }

    #[test]
    fn page_filters_agree_with_line_filters() {
        let plain = ["GET /a 200", "", "POST /b 500 error", "GET /c 404", "x", "error error", "tail 500", ""];
        let breaks = ["a\nb", "b", "a", "\n", "error\n500", "500 x"];
        for filters in [
            r#"|= "error""#,
            r#"!= "error""#,
            r#"|= "GET" |= "200""#,
            r#"|= "GET" != "200""#,
            r#"!= "GET" != "error""#,
            r#"|= "404" or "500""#,
            r#"!= "404" or "500""#,
            r#"|~ "^$""#,
            r#"|~ "^GET""#,
            r#"|~ "0$""#,
            r#"!~ "0$""#,
            r#"|~ "(?i)ERROR""#,
            r#"|~ "\\s5""#,
            r#"|~ "[^a-z]$""#,
            r#"|~ "a\\nb""#,
            r#"|~ "\\b500\\b""#,
            r#"|~ "error|404""#,
            r#"|~ "e(r+)o" |= "500""#,
            r#"|~ ".*x.*""#,
            r#"|= "\n""#,
            r#"|> "<_>500<_>""#,
            r#"!> "<_>500""#,
            r#"|= """#,
            r#"|~ "(?s)a.b""#,
        ] {
            check(filters, &plain);
            check(filters, &breaks);
        }
    }
}
