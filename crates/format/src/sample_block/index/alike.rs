//! Which series of two pages have the same labels, told by numbers.
//!
//! Blocks of neighbouring times hold mostly the same series. That two values are the same text is found out
//! once; from then on series are compared by the positions of their values alone.

use std::cmp::Ordering;

use super::series_page::SeriesPage;
use crate::block::{BOUND_NAME, METRIC_NAME, compare_bounds, tells_how_rolled};

/// What is known of two pages. It says of no other pages anything.
#[derive(Debug, Default)]
pub struct Alike {
    /// Columns of a label that both pages have.
    both: Vec<Pair>,
    /// Columns that only one of them has: a series of the other page is the same without the label alone.
    only: [Vec<usize>; 2],
}

/// The columns of one label.
#[derive(Debug)]
struct Pair {
    columns: [usize; 2],
    /// For each code of the first page that of the second with the same text, 0 where that is not known.
    same: Vec<u16>,
}

impl Alike {
    /// Of these pages nothing is known yet.
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

    /// Bytes that it takes at most.
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

    /// The order of series of the two pages, as [`crate::block::compare_series`] has it, by the texts of the
    /// values alone that are not known to be the same. `None` when one has a label that the other lacks, or
    /// they are rollups of another kind.
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
                name if tells_how_rolled(name) => return None,
                METRIC_NAME => metric = value.cmp(other_value),
                BOUND_NAME => bound = compare_bounds(Some(value), Some(other_value)),
                _ => plain = plain.then_with(|| value.cmp(other_value)),
            }
        }
        Some(metric.then(plain).then(bound))
    }

    /// Series of the two pages have the same labels.
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
