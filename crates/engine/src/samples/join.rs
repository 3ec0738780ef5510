//! Joins the samples of a series from several holders (blocks and heads).
//!
//! The series decides which of two samples of one instant stays ([`Stays`]): the one that was written first
//! or the one that was written last. Samples were written in the order of their stamps. Samples without a
//! stamp precede those, in the order of their holders. So the answer does not depend on which holders have
//! the samples ([`RowStamps`]).
//!
//! Most series have one part, or parts that do not overlap in time. Lists of times are shared. Series of
//! one target have the same parts, so work that depends only on times is done once for all of them.

use std::ops::Range;
use std::sync::Arc;

use foldhash::HashMap;
use sandur_format::stamp::{Stamp, Stamps};
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
    /// Stamps of the rows.
    pub(super) stamps: RowStamps<'a>,
}

/// The stamps of the samples of a part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum RowStamps<'a> {
    /// No sample has one.
    #[default]
    None,
    /// One for each sample.
    Each(&'a [Stamp]),
    /// Those of a list, beginning at this row.
    OfList(&'a Stamps, usize),
}

impl<'a> RowStamps<'a> {
    /// The stamps of some rows of a list.
    pub(super) fn of_list(stamps: Option<&'a Arc<Stamps>>, first: usize) -> Self {
        stamps.map_or(Self::None, |stamps| Self::OfList(stamps, first))
    }

    /// One stamp for each sample, or none.
    pub(super) fn each(stamps: &'a [Stamp]) -> Self {
        if stamps.is_empty() { Self::None } else { Self::Each(stamps) }
    }

    fn at(self, row: usize) -> Stamp {
        match self {
            Self::None => Stamp::default(),
            Self::Each(stamps) => stamps.get(row).copied().unwrap_or_default(),
            Self::OfList(stamps, first) => stamps.at(first + row),
        }
    }

    /// The stamps from this sample on.
    pub(super) fn from(self, row: usize) -> Self {
        match self {
            Self::None => Self::None,
            Self::Each(stamps) => Self::Each(stamps.get(row..).unwrap_or_default()),
            Self::OfList(stamps, first) => Self::OfList(stamps, first + row),
        }
    }

    /// Appends the stamps of the first samples.
    pub(super) fn extend(self, rows: usize, out: &mut Vec<Stamp>) {
        match self {
            Self::OfList(stamps, first) => stamps.extend(first..first + rows, out),
            _ => out.extend((0..rows).map(|row| self.at(row))),
        }
    }
}

/// When a sample was written, compared with others of its series and instant.
type Written = (Stamp, usize);

/// Which columns the samples of a join have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Columns {
    pub(super) starts: bool,
    pub(super) stamps: bool,
}

/// Joined floats of a series.
#[derive(Debug, Default)]
pub(super) struct JoinedFloats {
    pub(super) times: SharedTimes,
    pub(super) values: Vec<f64>,
    /// Empty if none is known, or they are not wanted.
    pub(super) starts: Vec<i64>,
    /// Empty if they are not wanted.
    pub(super) stamps: Vec<Stamp>,
}

impl FloatPart<'_> {
    fn written(&self, row: usize) -> Written {
        (self.stamps.at(row), self.holder)
    }

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
    pub(super) stamps: RowStamps<'a>,
}

impl HistogramPart<'_> {
    fn written(&self, row: usize) -> Written {
        (self.stamps.at(row), self.holder)
    }
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
        let (values, starts, stamps) = (&[][..], &[][..], RowStamps::None);
        self.join(&[FloatPart { holder: 0, times, rows, values, starts, stamps }])
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

/// Of a float and a histogram at one instant, removes the one that was written later.
pub(super) fn keep_one_of_each_instant(
    floats: &mut Vec<FloatPart<'_>>,
    histograms: &mut Vec<HistogramPart<'_>>,
) {
    if floats.is_empty() || histograms.is_empty() {
        return;
    }
    let mut firsts: HashMap<i64, Written> = HashMap::default();
    for part in histograms.iter() {
        for (row, time) in part.times.iter().enumerate() {
            let written = part.written(row);
            let first = firsts.entry(*time).or_insert(written);
            *first = written.min(*first);
        }
    }
    // Floats at instants of histograms, with whether the float arrived first. Usually there are none.
    let mut floats_first: HashMap<i64, bool> = HashMap::default();
    for part in floats.iter() {
        for (row, time) in part.times[part.rows.clone()].iter().enumerate() {
            if let Some(histogram) = firsts.get(time) {
                *floats_first.entry(*time).or_default() |= part.written(row) <= *histogram;
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
    let FloatPart { holder, times, rows, values, starts, stamps } = part;
    let first = rows.start;
    let of = |rows: Range<usize>| {
        let own = rows.start - first..rows.end - first;
        let stamps = stamps.from(own.start);
        let (values, starts) = (&values[own.clone()], starts.get(own).unwrap_or_default());
        FloatPart { holder, times, rows, values, starts, stamps }
    };
    stretches(rows, |row| is_float(times[row]) != Some(false)).into_iter().map(of).collect()
}

fn cut_histograms<'a>(
    part: HistogramPart<'a>,
    is_float: &impl Fn(i64) -> Option<bool>,
) -> Vec<HistogramPart<'a>> {
    let HistogramPart { holder, times, histograms, integers, starts, stamps } = part;
    let of = |rows: Range<usize>| HistogramPart {
        holder,
        times: &times[rows.clone()],
        histograms: &histograms[rows.clone()],
        integers: integers.get(rows.clone()).unwrap_or_default(),
        stamps: stamps.from(rows.start),
        starts: starts.get(rows).unwrap_or_default(),
    };
    stretches(0..times.len(), |row| is_float(times[row]) != Some(true)).into_iter().map(of).collect()
}

/// Joins the columns of parts. Of two samples of one instant, `stays` and when they were written decide.
/// `stays` is called only if parts overlap.
pub(super) fn join_floats(
    mut parts: Vec<FloatPart<'_>>,
    lists: &mut Lists,
    mut columns: Columns,
    stays: impl FnOnce() -> Stays,
) -> JoinedFloats {
    columns.starts &= parts.iter().any(|part| !part.starts.is_empty());
    let rows = parts.iter().map(|part| part.rows.len()).sum();
    let is_before = |one: &FloatPart<'_>, other: &FloatPart<'_>| one.last() < other.first();
    if !parts.is_sorted_by(is_before) {
        let mut order: Vec<&FloatPart<'_>> = parts.iter().collect();
        order.sort_by_key(|part| part.first());
        if !order.is_sorted_by(|one, other| is_before(one, other)) {
            return merge_floats(&parts, columns, rows, stays());
        }
        parts.sort_by_key(FloatPart::first);
    }
    let (mut values, mut starts, mut stamps) = (Vec::with_capacity(rows), Vec::new(), Vec::new());
    for part in &parts {
        values.extend_from_slice(part.values);
        if columns.starts {
            starts.extend_from_slice(part.starts);
            starts.resize(values.len(), 0);
        }
        if columns.stamps {
            part.stamps.extend(part.rows.len(), &mut stamps);
        }
    }
    JoinedFloats { times: lists.join(&parts), values, starts, stamps }
}

fn merge_floats(parts: &[FloatPart<'_>], columns: Columns, rows: usize, stays: Stays) -> JoinedFloats {
    // Time, part and row of the part.
    let mut all: Vec<(i64, u32, u32)> = Vec::with_capacity(rows);
    for (number, part) in (0..).zip(parts) {
        all.extend((0..).zip(&part.times[part.rows.clone()]).map(|(row, time)| (*time, number, row)));
    }
    let written = |(_, part, row): &(i64, u32, u32)| parts[*part as usize].written(*row as usize);
    all.sort_by_key(|(time, ..)| *time); // stable, and fast on runs that are already sorted
    all.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        let replaces = || match stays {
            Stays::First => written(later) < written(earlier),
            Stays::Last => written(later) >= written(earlier),
        };
        if is_same && replaces() {
            *earlier = *later;
        }
        is_same
    });
    let of = |(_, part, row): &(i64, u32, u32)| (&parts[*part as usize], *row as usize);
    let mut joined = JoinedFloats {
        times: all.iter().map(|(time, ..)| *time).collect::<Vec<i64>>().into(),
        values: all.iter().map(of).map(|(part, row)| part.values[row]).collect(),
        ..JoinedFloats::default()
    };
    if columns.starts {
        let start = |(part, row): (&FloatPart<'_>, usize)| part.starts.get(row).copied().unwrap_or(0);
        joined.starts = all.iter().map(of).map(start).collect();
    }
    if columns.stamps {
        joined.stamps = all.iter().map(of).map(|(part, row)| part.stamps.at(row)).collect();
    }
    joined
}

/// Histogram samples by ascending time, each time once.
#[derive(Default)]
pub(super) struct JoinedHistograms {
    pub(super) times: Vec<i64>,
    pub(super) histograms: Vec<Arc<FloatHistogram>>,
    pub(super) integers: Vec<bool>,
    pub(super) starts: Vec<i64>,
    pub(super) stamps: Vec<Stamp>,
}

/// Joins the histograms of parts. The sample of an instant that was written first stays.
pub(super) fn join_histograms(parts: &[HistogramPart<'_>], mut columns: Columns) -> JoinedHistograms {
    columns.starts &= parts.iter().any(|part| !part.starts.is_empty());
    let rows = |part: &HistogramPart<'_>| part.times.len();
    let mut all: Vec<(i64, usize, usize)> = Vec::with_capacity(parts.iter().map(rows).sum());
    for (number, part) in parts.iter().enumerate() {
        all.extend(part.times.iter().enumerate().map(|(row, time)| (*time, number, row)));
    }
    all.sort_by_key(|(time, ..)| *time); // stable, and fast on runs that are already sorted
    let written = |(_, number, row): &(i64, usize, usize)| parts[*number].written(*row);
    all.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same && written(later) < written(earlier) {
            *earlier = *later;
        }
        is_same
    });
    let mut joined = JoinedHistograms::default();
    for (time, number, row) in all {
        let part = &parts[number];
        joined.times.push(time);
        joined.histograms.push(Arc::clone(&part.histograms[row]));
        joined.integers.push(part.integers.get(row).copied().unwrap_or(false));
        if columns.starts {
            joined.starts.push(part.starts.get(row).copied().unwrap_or(0));
        }
        if columns.stamps {
            joined.stamps.push(part.stamps.at(row));
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use sandur_base::Id;

    use super::*;

    const ALL: Columns = Columns { starts: true, stamps: true };

    fn part<'a>(times: &'a Arc<Vec<i64>>, values: &'a [f64]) -> FloatPart<'a> {
        FloatPart { holder: 0, times, rows: 0..times.len(), values, starts: &[], stamps: RowStamps::None }
    }

    #[test]
    fn the_first_holder_wins_an_instant_or_the_last_one_in_a_path() {
        let (old, new) = (Arc::new(vec![10, 20, 30]), Arc::new(vec![5, 20, 40]));
        let parts = vec![part(&old, &[1.0, 2.0, 3.0]), part(&new, &[0.5, 9.0, 4.0])];
        let JoinedFloats { times, values, .. } =
            join_floats(parts, &mut Lists::default(), ALL, || Stays::First);
        assert_eq!((&times[..], values), (&[5, 10, 20, 30, 40][..], vec![0.5, 1.0, 2.0, 3.0, 4.0]));
        let parts = vec![part(&old, &[1.0, 2.0, 3.0]), part(&new, &[0.5, 9.0, 4.0])];
        let JoinedFloats { times, values, .. } =
            join_floats(parts, &mut Lists::default(), ALL, || Stays::Last);
        assert_eq!((&times[..], values), (&[5, 10, 20, 30, 40][..], vec![0.5, 1.0, 9.0, 3.0, 4.0]));
    }

    /// Goal: stamps decide in whatever order the parts come, and samples without a stamp precede them.
    #[test]
    fn stamps_decide_and_holders_decide_among_samples_without_one() {
        let stamp = |time, writer| match time {
            0 => Stamp::default(),
            time => Stamp { time, incarnation: Id(writer) },
        };
        let times = Arc::new(vec![10, 20, 30, 40]);
        let values = [[1.0; 4], [2.0; 4], [3.0; 4]];
        let stamps = [
            [stamp(5, 1), stamp(5, 1), stamp(0, 0), stamp(7, 1)],
            [stamp(4, 2), stamp(6, 2), stamp(0, 0), stamp(0, 0)],
            [stamp(6, 3), stamp(5, 3), stamp(0, 0), stamp(7, 3)],
        ];
        let histograms: Vec<Arc<FloatHistogram>> = (0..3)
            .map(|n| Arc::new(FloatHistogram { count: f64::from(n + 1), ..FloatHistogram::default() }))
            .collect();
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let parts = || {
                let of = |n: usize| {
                    let (own, stamps) = (part(&times, &values[n]), RowStamps::each(&stamps[n]));
                    FloatPart { holder: n, stamps, ..own }
                };
                order.map(of).into_iter().collect::<Vec<_>>()
            };
            let first = join_floats(parts(), &mut Lists::default(), ALL, || Stays::First);
            assert_eq!(first.values, [2.0, 1.0, 1.0, 2.0], "{order:?}");
            assert_eq!(first.stamps, [stamp(4, 2), stamp(5, 1), stamp(0, 0), stamp(0, 0)]);
            let last = join_floats(parts(), &mut Lists::default(), ALL, || Stays::Last);
            assert_eq!(last.values, [3.0, 2.0, 3.0, 3.0], "{order:?}");
            let of = |n: usize| HistogramPart {
                holder: n,
                times: &times[..1],
                histograms: &histograms[n..n + 1],
                integers: &[],
                starts: &[],
                stamps: RowStamps::each(&stamps[n]),
            };
            let joined = join_histograms(&order.map(of), ALL);
            assert_eq!((joined.histograms[0].count, joined.stamps), (2.0, vec![stamp(4, 2)]), "{order:?}");
            let mut floats = vec![parts().remove(order.iter().position(|n| *n == 0).unwrap())];
            let mut others = vec![of(1)];
            keep_one_of_each_instant(&mut floats, &mut others);
            assert_eq!((floats[0].first(), others.len()), (20, 1), "the histogram was written first");
        }
    }

    #[test]
    fn series_with_the_same_parts_share_their_times() {
        let (first, second) = (Arc::new(vec![10, 20]), Arc::new(vec![30, 40]));
        let mut lists = Lists::default();
        let mut join = || {
            let parts = vec![part(&second, &[3.0, 4.0]), part(&first, &[1.0, 2.0])];
            join_floats(parts, &mut lists, Columns::default(), || Stays::First)
        };
        let (JoinedFloats { times, values, starts, .. }, again) = (join(), join());
        assert_eq!((&times[..], values, starts), (&[10, 20, 30, 40][..], vec![1.0, 2.0, 3.0, 4.0], vec![]));
        assert!(times.is_shared_with(&again.times));
        let parts = vec![part(&first, &[1.0, 2.0])];
        let whole = join_floats(parts, &mut lists, Columns::default(), || Stays::First);
        assert!(whole.times.is_shared_with(&Arc::clone(&first).into()));
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
            stamps: RowStamps::None,
        };
        let mut floats = vec![FloatPart { holder: 1, starts: &[5, 6, 7, 8], ..part(&times, &values) }];
        let mut others = vec![histogram(0, &[20, 25]), histogram(2, &[30, 50])];
        keep_one_of_each_instant(&mut floats, &mut others);
        let JoinedFloats { times: kept, values, starts, .. } =
            join_floats(floats, &mut Lists::default(), ALL, || Stays::First);
        assert_eq!((&kept[..], values, starts), (&[10, 30, 40][..], vec![1.0, 3.0, 4.0], vec![5, 7, 8]));
        let joined = join_histograms(&others, ALL);
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
