//! The order of series in blocks.
//!
//! The order of all series is computed once and cached, since sorting a million of them takes long; later
//! series are merged into it. Series that have a rank in it are sorted by their ranks.
//!
//! A head that is read seldom does not need the order of all its series: few series are sorted by comparing
//! their labels, until that has cost as much as the order of all would have.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use roaring::RoaringBitmap;
use sandur_format::block::{BOUND_NAME, METRIC_NAME, compare_series, is_apart_from_points, is_rollup_label};

use super::table::Snapshot;

/// More series than this are taken from the order of all at once.
const FEW: u64 = 2_048;
/// Above this fraction of all series, filtering their order is faster than sorting ranks.
const FILTERED_SHARE: u64 = 16;
/// New series are merged one by one while they are fewer than this fraction of all; otherwise all are
/// sorted again.
const MERGED_SHARE: usize = 32;

/// All series of a snapshot, in order.
#[derive(Default)]
pub(super) struct Order {
    sorted: Vec<u32>,
    /// The position of each series in `sorted`, by number.
    ranks: Vec<u32>,
}

/// The cached order.
#[derive(Default)]
pub(super) struct KeptOrder(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    order: Arc<Order>,
    /// Comparisons of labels that requests made for lack of a rank.
    compared: u64,
}

/// About the number of comparisons that sorting takes.
fn comparisons(count: u64) -> u64 {
    count * u64::from(count.max(1).ilog2())
}

impl KeptOrder {
    /// Sorts series.
    pub(super) fn sort(&self, snapshot: &Snapshot, series: &RoaringBitmap) -> Vec<u32> {
        let Some(order) = self.with_ranks_of(snapshot, series) else {
            let mut few: Vec<u32> = series.iter().collect();
            few.sort_unstable_by(|a, b| compare(snapshot, *a, *b));
            return few;
        };
        if series.len() * FILTERED_SHARE > order.sorted.len() as u64 {
            return order.sorted.iter().copied().filter(|number| series.contains(*number)).collect();
        }
        let mut few: Vec<u32> = series.iter().collect();
        few.sort_unstable_by_key(|number| order.ranks[*number as usize]);
        few
    }

    /// An order with ranks of all these series of a snapshot; `None` if they are too few to make it.
    fn with_ranks_of(&self, snapshot: &Snapshot, series: &RoaringBitmap) -> Option<Arc<Order>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.order.sorted.len();
        if series.max().is_none_or(|last| (last as usize) < known) {
            return Some(Arc::clone(&kept.order));
        }
        kept.compared += comparisons(series.len());
        let is_merged = (snapshot.len() - known) * MERGED_SHARE < known;
        let cost = if is_merged { snapshot.len() as u64 } else { comparisons(snapshot.len() as u64) };
        if series.len() <= FEW && kept.compared < cost {
            return None;
        }
        kept.compared = 0;
        kept.order = Arc::new(match is_merged {
            true => kept.order.with_later_ones(snapshot),
            false => Order::of_all(snapshot),
        });
        Some(Arc::clone(&kept.order))
    }
}

impl Order {
    fn of(sorted: Vec<u32>) -> Self {
        let mut ranks = vec![0; sorted.len()];
        for (rank, number) in (0..).zip(&sorted) {
            ranks[*number as usize] = rank;
        }
        Self { sorted, ranks }
    }

    fn with_later_ones(&self, snapshot: &Snapshot) -> Self {
        let mut later: Vec<u32> = (self.sorted.len() as u32..snapshot.len() as u32).collect();
        later.sort_unstable_by(|a, b| compare(snapshot, *a, *b));
        let (mut sorted, mut rest) = (Vec::with_capacity(snapshot.len()), self.sorted.as_slice());
        for number in later {
            let before = rest.partition_point(|known| compare(snapshot, *known, number).is_lt());
            sorted.extend_from_slice(&rest[..before]);
            sorted.push(number);
            rest = &rest[before..];
        }
        sorted.extend_from_slice(rest);
        Self::of(sorted)
    }

    /// Sorts by the first [`Parts::part`], series with equal first parts by the second, and so on. Texts
    /// are compared by their ranks.
    fn of_all(snapshot: &Snapshot) -> Self {
        let (ranks, parts) = (ranks(snapshot), Parts::of(snapshot));
        let mut keyed: Vec<(u64, u32)> = (0..snapshot.len() as u32).map(|number| (0, number)).collect();
        // Ranges of series with equal parts before this depth.
        let mut same = vec![(0..keyed.len(), 0)];
        while let Some((range, depth)) = same.pop() {
            let run = &mut keyed[range.clone()];
            for (key, number) in run.iter_mut() {
                let rank = |(name, value): (u32, u32)| {
                    u64::from(ranks[name as usize]) << 32 | u64::from(ranks[value as usize])
                };
                *key = parts.part(snapshot, *number, depth).map_or(0, rank);
            }
            run.sort_unstable();
            let mut start = range.start;
            for equal in run.chunk_by_mut(|(a, _), (b, _)| a == b) {
                let end = start + equal.len();
                match equal.len() > 1 {
                    true if equal[0].0 == 0 => equal.sort_by(|(_, a), (_, b)| compare(snapshot, *a, *b)),
                    true => same.push((start..end, depth + 1)),
                    false => {}
                }
                start = end;
            }
        }
        Self::of(keyed.into_iter().map(|(_, number)| number).collect())
    }
}

/// The sort keys of series: first the metric, then every label except the bound of a bucket and, of
/// rollups next to their points, the labels that say how they were rolled. Series without a key come
/// first, in the order of [`compare`].
struct Parts {
    /// The numbers of the names with special handling.
    metric: Option<u32>,
    bound: Option<u32>,
    of_rollups: Vec<u32>,
}

impl Parts {
    fn of(snapshot: &Snapshot) -> Self {
        let texts = |n: &u32| snapshot.texts.get(*n);
        let number = |name| (0..snapshot.texts.len() as u32).find(|n| texts(n) == name);
        let of_rollups = (0..snapshot.texts.len() as u32).filter(|n| is_rollup_label(texts(n))).collect();
        Self { metric: number(METRIC_NAME), bound: number(BOUND_NAME), of_rollups }
    }

    fn part(&self, snapshot: &Snapshot, number: u32, depth: usize) -> Option<(u32, u32)> {
        let mut pairs = snapshot.pairs(number);
        let Some(nth) = depth.checked_sub(1) else {
            return pairs.find(|(name, _)| Some(*name) == self.metric);
        };
        let is_rollup = !self.of_rollups.is_empty() && is_apart_from_points(snapshot.texts_of(number));
        let is_own = |name: &u32| is_rollup && self.of_rollups.contains(name);
        let is_part = |name: &u32| Some(*name) != self.metric && Some(*name) != self.bound && !is_own(name);
        pairs.filter(|(name, _)| is_part(name)).nth(nth)
    }
}

/// The rank of each string among all, counted from 1.
fn ranks(snapshot: &Snapshot) -> Vec<u32> {
    let texts = &snapshot.texts;
    let mut sorted: Vec<u32> = (0..texts.len() as u32).collect();
    sorted.sort_unstable_by(|a, b| texts.get(*a).cmp(texts.get(*b)));
    let mut ranks = vec![0; sorted.len()];
    for (rank, number) in (1..).zip(sorted) {
        ranks[number as usize] = rank;
    }
    ranks
}

/// Compares series in the order of blocks.
fn compare(snapshot: &Snapshot, a: u32, b: u32) -> Ordering {
    compare_series(snapshot.texts_of(a), snapshot.texts_of(b))
}
