//! Joins the samples of a series from several holders (blocks and heads).
//!
//! The series decides which of two samples of one instant stays ([`Stays`]).
//!
//! Most series have one part, or parts that do not overlap in time. Lists of times are shared. Series of
//! one target have the same parts, so work that depends only on times is done once for all of them.

use std::ops::Range;
use std::sync::Arc;

use foldhash::HashMap;
use sandur_model::{FloatHistogram, Labels};
use sandur_query::SharedTimes;

use crate::samples::hidden::{Times, hides};

/// Which of several samples of a series at one instant stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stays {
    /// The one that arrived first.
    First,
    /// The one that arrived last: the series has a path.
    Last,
}

impl Stays {
    /// The rule for a series with these labels.
    pub(super) fn of(labels: &Labels) -> Self {
        if crate::path_labels::last_write_wins(labels) { Self::Last } else { Self::First }
    }
}

/// Float samples of a series from one holder.
pub(super) struct FloatPart<'a> {
    /// The number of the holder. Of two holders the one with the lower number got its samples first.
    pub(super) holder: usize,
    /// The list that contains its times.
    pub(super) times: &'a Arc<Vec<i64>>,
    /// The rows of the list that belong to this part.
    pub(super) rows: Range<usize>,
    /// Values, one for each row.
    pub(super) values: &'a [f64],
    /// Start times, one for each row or none.
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

/// Histogram samples of a series from one holder.
pub(super) struct HistogramPart<'a> {
    pub(super) holder: usize,
    pub(super) times: &'a [i64],
    pub(super) histograms: &'a [Arc<FloatHistogram>],
    /// Whether each was sent with integer counts.
    pub(super) integers: &'a [bool],
    pub(super) starts: &'a [i64],
}

/// The address of a list, and the range of its rows.
type ListRows = (usize, usize, usize);

/// The lists of times of a batch.
#[derive(Default)]
pub(super) struct Lists {
    /// By first time, last time and number of times.
    known: HashMap<(i64, i64, usize), Vec<Arc<Vec<i64>>>>,
    /// Joined lists, by the addresses of the joined lists, which live as long as the batch is being made.
    joined: HashMap<Vec<ListRows>, SharedTimes>,
    /// The joined list of the last series; usually the next series has the same parts.
    last: (Vec<ListRows>, SharedTimes),
}

impl Lists {
    /// Returns an earlier list with the same times, or makes a new one.
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

    /// The times of some rows of a list.
    pub(super) fn of_rows(&mut self, times: &Arc<Vec<i64>>, rows: Range<usize>) -> SharedTimes {
        self.join(&[FloatPart { holder: 0, times, rows, values: &[], starts: &[] }])
    }

    fn join(&mut self, parts: &[FloatPart<'_>]) -> SharedTimes {
        if let [part] = parts
            && part.rows.len() == part.times.len()
        {
            return Arc::clone(part.times).into();
        }
        let of = |part: &FloatPart<'_>| -> ListRows {
            (Arc::as_ptr(part.times) as usize, part.rows.start, part.rows.end)
        };
        if parts.iter().map(of).eq(self.last.0.iter().copied()) {
            return self.last.1.clone();
        }
        let all = || -> Vec<i64> {
            parts.iter().flat_map(|part| part.times[part.rows.clone()].iter().copied()).collect()
        };
        let key: Vec<ListRows> = parts.iter().map(of).collect();
        let times = self.joined.entry(key.clone()).or_insert_with(|| all().into()).clone();
        self.last = (key, times.clone());
        times
    }
}

/// The runs of rows whose times are not hidden.
pub(super) fn visible(
    times: &[i64],
    rows: Range<usize>,
    hidden: &[Times],
) -> impl Iterator<Item = Range<usize>> + use<> {
    let (whole, cut) = match hidden.is_empty() {
        true => (Some(rows).filter(|rows| !rows.is_empty()), Vec::new()),
        false => (None, stretches(rows, |row| !hides(hidden, times[row]))),
    };
    whole.into_iter().chain(cut)
}

/// The runs of rows for which `stays` holds.
fn stretches(rows: Range<usize>, stays: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let mut stretches: Vec<Range<usize>> = Vec::new();
    for row in rows.filter(|row| stays(*row)) {
        match stretches.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => stretches.push(row..row + 1),
        }
    }
    stretches
}

/// Of a float and a histogram at one instant, removes the one from the later holder.
pub(super) fn keep_one_of_each_instant(
    floats: &mut Vec<FloatPart<'_>>,
    histograms: &mut Vec<HistogramPart<'_>>,
) {
    if floats.is_empty() || histograms.is_empty() {
        return;
    }
    let mut firsts: HashMap<i64, usize> = HashMap::default();
    for part in histograms.iter() {
        for time in part.times {
            let first = firsts.entry(*time).or_insert(part.holder);
            *first = part.holder.min(*first);
        }
    }
    // Floats at instants of histograms, with whether the float arrived first. Usually there are none.
    let mut floats_first: HashMap<i64, bool> = HashMap::default();
    for part in floats.iter() {
        for time in &part.times[part.rows.clone()] {
            if let Some(histogram) = firsts.get(time) {
                *floats_first.entry(*time).or_default() |= part.holder <= *histogram;
            }
        }
    }
    if floats_first.is_empty() {
        return;
    }
    let is_float = |time: i64| floats_first.get(&time).copied();
    *floats = std::mem::take(floats).into_iter().flat_map(|part| cut_floats(part, &is_float)).collect();
    *histograms =
        std::mem::take(histograms).into_iter().flat_map(|part| cut_histograms(part, &is_float)).collect();
}

fn cut_floats<'a>(part: FloatPart<'a>, is_float: &impl Fn(i64) -> Option<bool>) -> Vec<FloatPart<'a>> {
    let FloatPart { holder, times, rows, values, starts } = part;
    let first = rows.start;
    let of = |rows: Range<usize>| {
        let own = rows.start - first..rows.end - first;
        let (values, starts) = (&values[own.clone()], starts.get(own).unwrap_or_default());
        FloatPart { holder, times, rows, values, starts }
    };
    stretches(rows, |row| is_float(times[row]) != Some(false)).into_iter().map(of).collect()
}

fn cut_histograms<'a>(
    part: HistogramPart<'a>,
    is_float: &impl Fn(i64) -> Option<bool>,
) -> Vec<HistogramPart<'a>> {
    let HistogramPart { holder, times, histograms, integers, starts } = part;
    let of = |rows: Range<usize>| HistogramPart {
        holder,
        times: &times[rows.clone()],
        histograms: &histograms[rows.clone()],
        integers: integers.get(rows.clone()).unwrap_or_default(),
        starts: starts.get(rows).unwrap_or_default(),
    };
    stretches(0..times.len(), |row| is_float(times[row]) != Some(true)).into_iter().map(of).collect()
}

/// Joins the times, values and starts of parts. Of two samples of one instant, the holder's number and
/// `stays` decide. `stays` is called only if parts overlap.
pub(super) fn join_floats(
    mut parts: Vec<FloatPart<'_>>,
    lists: &mut Lists,
    with_starts: bool,
    stays: impl FnOnce() -> Stays,
) -> (SharedTimes, Vec<f64>, Vec<i64>) {
    let with_starts = with_starts && parts.iter().any(|part| !part.starts.is_empty());
    let rows = parts.iter().map(|part| part.rows.len()).sum();
    let is_before = |one: &FloatPart<'_>, other: &FloatPart<'_>| one.last() < other.first();
    if !parts.is_sorted_by(is_before) {
        let mut order: Vec<&FloatPart<'_>> = parts.iter().collect();
        order.sort_by_key(|part| part.first());
        if !order.is_sorted_by(|one, other| is_before(one, other)) {
            return merge_floats(parts, with_starts, rows, stays());
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
    stays: Stays,
) -> (SharedTimes, Vec<f64>, Vec<i64>) {
    let mut all: Vec<(i64, u64, i64)> = Vec::with_capacity(rows);
    for part in &parts {
        for (n, row) in part.rows.clone().enumerate() {
            let start = part.starts.get(n).copied().unwrap_or(0);
            all.push((part.times[row], part.values[n].to_bits(), start));
        }
    }
    all.sort_by_key(|(time, ..)| *time); // stable, and fast on runs that are already sorted
    all.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same && stays == Stays::Last {
            *earlier = *later;
        }
        is_same
    });
    let starts = if with_starts { all.iter().map(|(.., start)| *start).collect() } else { Vec::new() };
    let times: Vec<i64> = all.iter().map(|(time, ..)| *time).collect();
    (times.into(), all.iter().map(|(_, bits, _)| f64::from_bits(*bits)).collect(), starts)
}

/// Histogram samples by ascending time, each time once.
#[derive(Default)]
pub(super) struct JoinedHistograms {
    pub(super) times: Vec<i64>,
    pub(super) histograms: Vec<Arc<FloatHistogram>>,
    pub(super) integers: Vec<bool>,
    pub(super) starts: Vec<i64>,
}

/// Joins the histograms of parts. The first holder's sample of an instant stays.
pub(super) fn join_histograms(parts: &[HistogramPart<'_>], with_starts: bool) -> JoinedHistograms {
    let with_starts = with_starts && parts.iter().any(|part| !part.starts.is_empty());
    let rows = |part: &HistogramPart<'_>| part.times.len();
    let mut all: Vec<(i64, usize, usize)> = Vec::with_capacity(parts.iter().map(rows).sum());
    for (number, part) in parts.iter().enumerate() {
        all.extend(part.times.iter().enumerate().map(|(row, time)| (*time, number, row)));
    }
    all.sort_by_key(|(time, ..)| *time); // stable, and fast on runs that are already sorted
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
        FloatPart { holder: 0, times, rows: 0..times.len(), values, starts: &[] }
    }

    #[test]
    fn the_first_holder_wins_an_instant_or_the_last_one_in_a_path() {
        let (old, new) = (Arc::new(vec![10, 20, 30]), Arc::new(vec![5, 20, 40]));
        let parts = vec![part(&old, &[1.0, 2.0, 3.0]), part(&new, &[0.5, 9.0, 4.0])];
        let (times, values, _) = join_floats(parts, &mut Lists::default(), true, || Stays::First);
        assert_eq!((&times[..], values), (&[5, 10, 20, 30, 40][..], vec![0.5, 1.0, 2.0, 3.0, 4.0]));
        let parts = vec![part(&old, &[1.0, 2.0, 3.0]), part(&new, &[0.5, 9.0, 4.0])];
        let (times, values, _) = join_floats(parts, &mut Lists::default(), true, || Stays::Last);
        assert_eq!((&times[..], values), (&[5, 10, 20, 30, 40][..], vec![0.5, 1.0, 9.0, 3.0, 4.0]));
    }

    #[test]
    fn series_with_the_same_parts_share_their_times() {
        let (first, second) = (Arc::new(vec![10, 20]), Arc::new(vec![30, 40]));
        let mut lists = Lists::default();
        let mut join = || {
            let parts = vec![part(&second, &[3.0, 4.0]), part(&first, &[1.0, 2.0])];
            join_floats(parts, &mut lists, false, || Stays::First)
        };
        let ((times, values, starts), (again, ..)) = (join(), join());
        assert_eq!((&times[..], values, starts), (&[10, 20, 30, 40][..], vec![1.0, 2.0, 3.0, 4.0], vec![]));
        assert!(times.is_shared_with(&again));
        let (whole, ..) = join_floats(vec![part(&first, &[1.0, 2.0])], &mut lists, false, || Stays::First);
        assert!(whole.is_shared_with(&Arc::clone(&first).into()));
    }

    #[test]
    fn the_first_of_a_float_and_a_histogram_of_one_instant_stays() {
        let (times, values) = (Arc::new(vec![10, 20, 30, 40]), [1.0, 2.0, 3.0, 4.0]);
        let histograms: Vec<Arc<FloatHistogram>> = vec![Arc::default(); 2];
        let histogram = |holder, times| HistogramPart {
            holder,
            times,
            histograms: &histograms,
            integers: &[true, false],
            starts: &[],
        };
        let mut floats = vec![FloatPart { holder: 1, starts: &[5, 6, 7, 8], ..part(&times, &values) }];
        let mut others = vec![histogram(0, &[20, 25]), histogram(2, &[30, 50])];
        keep_one_of_each_instant(&mut floats, &mut others);
        let (kept, values, starts) = join_floats(floats, &mut Lists::default(), true, || Stays::First);
        assert_eq!((&kept[..], values, starts), (&[10, 30, 40][..], vec![1.0, 3.0, 4.0], vec![5, 7, 8]));
        let joined = join_histograms(&others, true);
        assert_eq!((joined.times, joined.integers), (vec![20, 25, 50], vec![true, false, false]));
    }

    #[test]
    fn hidden_times_split_a_list_into_runs() {
        let of = |times: &[i64], rows, hidden: &[Times]| visible(times, rows, hidden).collect::<Vec<_>>();
        assert_eq!(of(&[1, 2, 3, 4, 5], 0..5, &[(2, 3)]), [0..1, 3..5]);
        assert_eq!(of(&[1, 2], 0..2, &[(0, 9)]), Vec::<Range<usize>>::new());
        assert_eq!(of(&[1, 2], 1..1, &[]), Vec::<Range<usize>>::new());
        assert_eq!(of(&[1, 2, 3], 1..3, &[]).first(), Some(&(1..3)));
    }
}
