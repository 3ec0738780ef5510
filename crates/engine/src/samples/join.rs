//! Joins the samples that several holders have of a series.
//!
//! Most series have one part, or parts that follow each other. Lists of times are shared: series of one
//! target have the same parts, so that what depends on times alone is done once for all of them.

use std::ops::Range;
use std::sync::Arc;

use foldhash::HashMap;
use sandur_model::FloatHistogram;
use sandur_query::SharedTimes;

use crate::samples::hidden::{Times, hides};

/// Float samples of a series that one holder has.
pub(super) struct FloatPart<'a> {
    /// The list that its times are in.
    pub(super) times: &'a Arc<Vec<i64>>,
    /// Which of them are its.
    pub(super) rows: Range<usize>,
    /// Values, one for each.
    pub(super) values: &'a [f64],
    /// Start times, one for each or none.
    pub(super) starts: &'a [i64],
}

impl FloatPart<'_> {
    pub(super) fn first(&self) -> i64 {
        self.times[self.rows.start]
    }

    pub(super) fn last(&self) -> i64 {
        self.times[self.rows.end - 1]
    }
}

/// Histogram samples of a series that one holder has.
pub(super) struct HistogramPart<'a> {
    pub(super) times: &'a [i64],
    pub(super) histograms: &'a [Arc<FloatHistogram>],
    /// Whether each was sent with integer counts.
    pub(super) integers: &'a [bool],
    pub(super) starts: &'a [i64],
}

/// A list and the rows of it.
type ListRows = (usize, usize, usize);

/// The lists of times of a batch.
#[derive(Default)]
pub(super) struct Lists {
    /// By first, last and number of times.
    known: HashMap<(i64, i64, usize), Vec<Arc<Vec<i64>>>>,
    /// What came out of parts, by the addresses of their lists, which live as long as the batch is made.
    joined: HashMap<Vec<ListRows>, SharedTimes>,
}

impl Lists {
    /// The list, or one with the same times that came before.
    pub(super) fn shared(&mut self, times: Vec<i64>) -> Arc<Vec<i64>> {
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return Arc::default() };
        let alike = self.known.entry((*first, *last, times.len())).or_default();
        if let Some(known) = alike.iter().find(|known| ***known == times) {
            return Arc::clone(known);
        }
        let list = Arc::new(times);
        alike.push(Arc::clone(&list));
        list
    }

    fn join(&mut self, parts: &[FloatPart<'_>]) -> SharedTimes {
        if let [part] = parts
            && part.rows.len() == part.times.len()
        {
            return Arc::clone(part.times).into();
        }
        let key = parts.iter().map(|part| (Arc::as_ptr(part.times) as usize, part.rows.start, part.rows.end));
        let all = || -> Vec<i64> {
            parts.iter().flat_map(|part| part.times[part.rows.clone()].iter().copied()).collect()
        };
        self.joined.entry(key.collect()).or_insert_with(|| all().into()).clone()
    }
}

/// The rows whose times are not hidden, in stretches.
pub(super) fn visible(times: &[i64], rows: Range<usize>, hidden: &[Times]) -> Vec<Range<usize>> {
    if hidden.is_empty() {
        return if rows.is_empty() { Vec::new() } else { vec![rows] };
    }
    let mut stretches: Vec<Range<usize>> = Vec::new();
    for row in rows.filter(|row| !hides(hidden, times[*row])) {
        match stretches.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => stretches.push(row..row + 1),
        }
    }
    stretches
}

/// Times, values and starts of parts, those of the holder that had its samples first before others.
pub(super) fn join_floats(
    mut parts: Vec<FloatPart<'_>>,
    lists: &mut Lists,
    with_starts: bool,
) -> (SharedTimes, Vec<f64>, Vec<i64>) {
    let with_starts = with_starts && parts.iter().any(|part| !part.starts.is_empty());
    let rows = parts.iter().map(|part| part.rows.len()).sum();
    let in_order = |parts: &[FloatPart<'_>], order: &[usize]| {
        order.windows(2).all(|pair| parts[pair[0]].last() < parts[pair[1]].first())
    };
    let mut order: Vec<usize> = (0..parts.len()).collect();
    if !in_order(&parts, &order) {
        order.sort_by_key(|at| parts[*at].first());
        if !in_order(&parts, &order) {
            return merge_floats(parts, with_starts, rows);
        }
        parts.sort_by_key(FloatPart::first);
    }
    let (mut values, mut starts) = (Vec::with_capacity(rows), Vec::new());
    for part in &parts {
        values.extend_from_slice(part.values);
        if with_starts {
            starts.extend_from_slice(part.starts);
            starts.resize(values.len(), 0);
        }
    }
    (lists.join(&parts), values, starts)
}

fn merge_floats(
    parts: Vec<FloatPart<'_>>,
    with_starts: bool,
    rows: usize,
) -> (SharedTimes, Vec<f64>, Vec<i64>) {
    let mut all: Vec<(i64, u64, i64)> = Vec::with_capacity(rows);
    for part in &parts {
        for (n, row) in part.rows.clone().enumerate() {
            let start = part.starts.get(n).copied().unwrap_or(0);
            all.push((part.times[row], part.values[n].to_bits(), start));
        }
    }
    all.sort_by_key(|(time, ..)| *time); // stable, and fast on runs that are sorted already
    all.dedup_by_key(|(time, ..)| *time);
    let starts = if with_starts { all.iter().map(|(.., start)| *start).collect() } else { Vec::new() };
    let times: Vec<i64> = all.iter().map(|(time, ..)| *time).collect();
    (times.into(), all.iter().map(|(_, bits, _)| f64::from_bits(*bits)).collect(), starts)
}

/// Histogram samples by rising time, each time once.
#[derive(Default)]
pub(super) struct JoinedHistograms {
    pub(super) times: Vec<i64>,
    pub(super) histograms: Vec<Arc<FloatHistogram>>,
    pub(super) integers: Vec<bool>,
    pub(super) starts: Vec<i64>,
}

/// The same of histograms.
pub(super) fn join_histograms(parts: &[HistogramPart<'_>], with_starts: bool) -> JoinedHistograms {
    let with_starts = with_starts && parts.iter().any(|part| !part.starts.is_empty());
    let rows = |part: &HistogramPart<'_>| part.times.len();
    let mut all: Vec<(i64, usize, usize)> = Vec::with_capacity(parts.iter().map(rows).sum());
    for (number, part) in parts.iter().enumerate() {
        all.extend(part.times.iter().enumerate().map(|(row, time)| (*time, number, row)));
    }
    all.sort_by_key(|(time, ..)| *time); // stable, and fast on runs that are sorted already
    all.dedup_by_key(|(time, ..)| *time);
    let mut joined = JoinedHistograms::default();
    for (time, number, row) in all {
        let part = &parts[number];
        joined.times.push(time);
        joined.histograms.push(Arc::clone(&part.histograms[row]));
        joined.integers.push(part.integers.get(row).copied().unwrap_or(false));
        if with_starts {
            joined.starts.push(part.starts.get(row).copied().unwrap_or(0));
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part<'a>(times: &'a Arc<Vec<i64>>, values: &'a [f64]) -> FloatPart<'a> {
        FloatPart { times, rows: 0..times.len(), values, starts: &[] }
    }

    #[test]
    fn the_first_holder_wins_an_instant() {
        let (old, new) = (Arc::new(vec![10, 20, 30]), Arc::new(vec![5, 20, 40]));
        let parts = vec![part(&old, &[1.0, 2.0, 3.0]), part(&new, &[0.5, 9.0, 4.0])];
        let (times, values, _) = join_floats(parts, &mut Lists::default(), true);
        assert_eq!((&times[..], values), (&[5, 10, 20, 30, 40][..], vec![0.5, 1.0, 2.0, 3.0, 4.0]));
    }

    #[test]
    fn series_with_the_same_parts_share_their_times() {
        let (first, second) = (Arc::new(vec![10, 20]), Arc::new(vec![30, 40]));
        let mut lists = Lists::default();
        let mut join = || {
            let parts = vec![part(&second, &[3.0, 4.0]), part(&first, &[1.0, 2.0])];
            join_floats(parts, &mut lists, false)
        };
        let ((times, values, starts), (again, ..)) = (join(), join());
        assert_eq!((&times[..], values, starts), (&[10, 20, 30, 40][..], vec![1.0, 2.0, 3.0, 4.0], vec![]));
        assert!(times.is_shared_with(&again));
        let (whole, ..) = join_floats(vec![part(&first, &[1.0, 2.0])], &mut lists, false);
        assert!(whole.is_shared_with(&Arc::clone(&first).into()));
    }

    #[test]
    fn hidden_times_cut_a_list() {
        assert_eq!(visible(&[1, 2, 3, 4, 5], 0..5, &[(2, 3)]), [0..1, 3..5]);
        assert_eq!(visible(&[1, 2], 0..2, &[(0, 9)]), Vec::<Range<usize>>::new());
        assert_eq!(visible(&[1, 2], 1..1, &[]), Vec::<Range<usize>>::new());
    }
}
