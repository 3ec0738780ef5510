//! Compares labels of series of two pages by numbers instead of texts.
//!
//! Blocks of neighbouring times hold mostly the same series. Two values are compared as text once;
//! afterwards series are compared by the indexes of their values.

use std::cmp::Ordering;

use super::series_page::SeriesPage;
use crate::block::{BOUND_NAME, METRIC_NAME, compare_bounds, is_rollup_label};

/// The equal values found so far in two pages. Valid only for these two pages.
#[derive(Debug, Default)]
pub struct Alike {
    /// Columns of labels that both pages have.
    both: Vec<Pair>,
    /// Columns that only one of the pages has: a series with such a label differs from all series of the
    /// other page.
    only: [Vec<usize>; 2],
}

/// The columns of one label.
#[derive(Debug)]
struct Pair {
    columns: [usize; 2],
    /// For each code of the first page, the code of the second page with the same text; 0 where it is not
    /// known.
    same: Vec<u16>,
}

impl Alike {
    /// Returns the comparison of these pages, with no equal values known yet.
    pub fn of(first: &SeriesPage, second: &SeriesPage) -> Self {
        let mut alike = Self::default();
        for (at, column) in first.columns().iter().enumerate() {
            match second.columns().iter().position(|other| other.name() == column.name()) {
                Some(other) => {
                    let same = vec![0; column.codes()];
                    alike.both.push(Pair { columns: [at, other], same });
                }
                None => alike.only[0].push(at),
            }
        }
        let is_shared = |at: &usize| alike.both.iter().any(|pair| pair.columns[1] == *at);
        let only: Vec<usize> = (0..second.columns().len()).filter(|at| !is_shared(at)).collect();
        alike.only[1] = only;
        alike
    }

    /// Returns the most bytes that it takes.
    pub fn bytes_of(first: &SeriesPage) -> u64 {
        first.columns().iter().map(|column| (column.codes() * 2 + size_of::<Pair>() * 2) as u64).sum()
    }

    /// Whether series of the two pages are known to have the same labels.
    pub fn are_same(&self, (first, a): (&SeriesPage, u32), (second, b): (&SeriesPage, u32)) -> bool {
        let (a, b) = (first.row(a), second.row(b));
        let same = |pair: &Pair| {
            let code = first.columns()[pair.columns[0]].code(a);
            let other = second.columns()[pair.columns[1]].code(b);
            match code {
                0 => other == 0,
                code => other != 0 && pair.same[usize::from(code)] == other,
            }
        };
        self.both.iter().all(same)
            && self.only[0].iter().all(|at| first.columns()[*at].code(a) == 0)
            && self.only[1].iter().all(|at| second.columns()[*at].code(b) == 0)
    }

    /// Compares series of the two pages in the order of [`crate::block::compare_series`]. Compares texts
    /// only of values that are not known to be equal. `None` when one series has a label that the other
    /// lacks, or when they are rollups of different kinds.
    pub fn compare(
        &self,
        (first, a): (&SeriesPage, u32),
        (second, b): (&SeriesPage, u32),
    ) -> Option<Ordering> {
        let (a, b) = (first.row(a), second.row(b));
        let lacks = |page: &SeriesPage, columns: &[usize], row: usize| {
            columns.iter().all(|at| page.columns()[*at].code(row) == 0)
        };
        if !lacks(first, &self.only[0], a) || !lacks(second, &self.only[1], b) {
            return None;
        }
        let (mut metric, mut plain, mut bound) = (Ordering::Equal, Ordering::Equal, Ordering::Equal);
        for Pair { columns, same } in &self.both {
            let (column, other) = (&first.columns()[columns[0]], &second.columns()[columns[1]]);
            let (code, other_code) = (column.code(a), other.code(b));
            let is_known = match code {
                0 => other_code == 0,
                code => other_code != 0 && same[usize::from(code)] == other_code,
            };
            if is_known {
                continue;
            }
            let (Some(value), Some(other_value)) = (column.value(a), other.value(b)) else { return None };
            match column.name() {
                name if is_rollup_label(name) => return None,
                METRIC_NAME => metric = value.cmp(other_value),
                BOUND_NAME => bound = compare_bounds(Some(value), Some(other_value)),
                _ => plain = plain.then_with(|| value.cmp(other_value)),
            }
        }
        Some(metric.then(plain).then(bound))
    }

    /// Records that series of the two pages have the same labels.
    pub fn learn(&mut self, (first, a): (&SeriesPage, u32), (second, b): (&SeriesPage, u32)) {
        let (a, b) = (first.row(a), second.row(b));
        for Pair { columns, same } in &mut self.both {
            let code = first.columns()[columns[0]].code(a);
            if code != 0 {
                same[usize::from(code)] = second.columns()[columns[1]].code(b);
            }
        }
    }
}
