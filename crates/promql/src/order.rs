//! A sort that can be cancelled: lists of series may be long, and labels are slow to compare.

use std::cmp::Ordering;

use sandur_memory::Stopped;
use sandur_memory::job::{JobMemory, spend};

/// The length of runs that are sorted without interruption.
const RUN_ITEMS: usize = 1024;
/// The work of a comparison, in units of `spend`.
const COMPARE_WORK: usize = 64;

/// Sorts items with a stable merge sort.
pub fn sorted<T>(items: Vec<T>, compare: impl Fn(&T, &T) -> Ordering) -> Result<Vec<T>, Stopped> {
    let mut held = JobMemory::default();
    held.at_least((items.len() * size_of::<T>() * 2) as u64)?;
    let (mut runs, mut items) = (Vec::new(), items.into_iter());
    loop {
        let mut run: Vec<T> = items.by_ref().take(RUN_ITEMS).collect();
        if run.is_empty() {
            break;
        }
        spend(run.len() * 8 * COMPARE_WORK)?;
        run.sort_by(&compare);
        runs.push(run);
    }
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut rest = runs.into_iter();
        while let Some(left) = rest.next() {
            merged.push(match rest.next() {
                Some(right) => merge(left, right, &compare)?,
                None => left,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

fn merge<T>(left: Vec<T>, right: Vec<T>, compare: impl Fn(&T, &T) -> Ordering) -> Result<Vec<T>, Stopped> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    loop {
        spend(COMPARE_WORK)?;
        let next = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) if compare(a, b).is_gt() => right.next(),
            (Some(_), _) => left.next(),
            (None, _) => right.next(),
        };
        match next {
            Some(next) => merged.push(next),
            None => return Ok(merged),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_sorted_and_the_sort_is_stable() {
        for length in [0, 1, RUN_ITEMS, RUN_ITEMS + 1, 10 * RUN_ITEMS + 7] {
            let items: Vec<(usize, usize)> = (0..length).map(|n| (n * 7919 % 97, n)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(key, _)| *key);
            assert_eq!(sorted(items, |a, b| a.0.cmp(&b.0)), Ok(expected));
        }
    }
}
