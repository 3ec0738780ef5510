//! Groups sources whose times overlap into clusters.
//!
//! Rows of different clusters never overlap in time, so a scan finishes one cluster before it opens the
//! next one. Therefore only the footers of one cluster are in memory, and a query for the latest rows
//! opens no older block than it needs. Hour blocks of different hours are separate clusters.

use sandur_model::{DAY_NS, MINUTE_NS, TimeRange};
use sandur_query::Order;

/// A source of rows, with the inclusive bounds of its times.
#[derive(Clone, Debug)]
pub struct Timed<T> {
    /// First timestamp.
    pub first: i64,
    /// Last timestamp.
    pub last: i64,
    /// The source.
    pub source: T,
}

impl<T> Timed<T> {
    /// Whether it spans more than a day, so that it would join everything that it overlaps into one cluster.
    fn is_wide(&self) -> bool {
        self.last.saturating_sub(self.first) > DAY_NS
    }
}

/// A source in a cluster.
#[derive(Clone, Debug)]
pub struct Member<T> {
    /// The source.
    pub source: T,
    /// The times of its rows that belong to the cluster.
    pub times: TimeRange,
}

/// Groups sources that overlap in time, directly or through others, in the order of the query. Wide
/// sources do not connect others: each is a member of every cluster that it overlaps, with its rows of
/// the cluster's times.
pub fn clusters<T: Clone>(sources: Vec<Timed<T>>, order: Order) -> Vec<Vec<Member<T>>> {
    let (wide, mut narrow): (Vec<_>, Vec<_>) = sources.into_iter().partition(Timed::is_wide);
    narrow.sort_by_key(|s| (s.first, s.last));
    let mut clusters: Vec<Vec<Timed<T>>> = Vec::new();
    let mut reach = i64::MIN;
    // The begin of each cluster's times.
    let mut starts: Vec<i64> = Vec::new();
    for source in narrow {
        let meets = source.first <= reach;
        match clusters.last_mut() {
            Some(cluster) if meets => cluster.push(source.clone()),
            _ => {
                starts.push(start_between(reach, source.first));
                clusters.push(vec![source.clone()]);
            }
        }
        reach = reach.max(source.last);
    }
    if clusters.is_empty() && !wide.is_empty() {
        (clusters, starts) = (vec![Vec::new()], vec![i64::MIN]);
    }
    let ends = starts.iter().copied().skip(1).chain([i64::MAX]);
    let starts = [i64::MIN].into_iter().chain(starts.iter().copied().skip(1));
    let times: Vec<TimeRange> = starts.zip(ends).map(|(start, end)| TimeRange::new(start, end)).collect();
    let whole =
        |one: Timed<T>| Member { source: one.source, times: TimeRange::inclusive(one.first, one.last) };
    let with_wide = |(cluster, times): (Vec<Timed<T>>, TimeRange)| {
        let near = wide.iter().filter(|one| times.touches(one.first, one.last));
        let part = |one: &Timed<T>| {
            let own = TimeRange::inclusive(one.first, one.last);
            let times = if times.covers(one.first, one.last) { own } else { times };
            Member { source: one.source.clone(), times }
        };
        cluster.into_iter().map(whole).chain(near.map(part)).collect()
    };
    let mut clusters: Vec<Vec<Member<T>>> = clusters.into_iter().zip(times).map(with_wide).collect();
    if order != Order::OldestFirst {
        clusters.reverse();
    }
    clusters
}

/// An instant after the last row of a cluster and not after the first row of the next, if possible the
/// begin of a minute of counts.
fn start_between(last: i64, first: i64) -> i64 {
    let minute = first.saturating_sub(1).div_euclid(MINUTE_NS).saturating_mul(MINUTE_NS).saturating_add(1);
    if minute > last { minute } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(order: Order) -> Vec<Vec<&'static str>> {
        let timed = |first, last, source| Timed { first, last, source };
        let sources = vec![
            timed(50, 60, "late"),
            timed(0, 10, "early"),
            timed(10, 20, "touches early"),
            timed(15, 18, "inside"),
            timed(21, 30, "alone"),
        ];
        let found = clusters(sources, order);
        found.into_iter().map(|c| c.into_iter().map(|t| t.source).collect()).collect()
    }

    #[test]
    fn wide_sources_are_split_among_the_clusters_that_they_overlap() {
        let timed = |first, last, source| Timed { first: first * DAY_NS, last: last * DAY_NS, source };
        let hour = |day: i64, source| Timed { first: day * DAY_NS, last: day * DAY_NS + 5, source };
        let sources = vec![timed(0, 9, "wide"), hour(3, "c"), hour(1, "a"), hour(2, "b"), timed(2, 4, "w2")];
        let found = clusters(sources, Order::OldestFirst);
        let shown = |cluster: &Vec<Member<&'static str>>| -> Vec<(&'static str, i64, i64)> {
            let day = |at: i64| at.div_euclid(DAY_NS);
            cluster.iter().map(|one| (one.source, day(one.times.start), day(one.times.end))).collect()
        };
        let (least, most) = (i64::MIN.div_euclid(DAY_NS), i64::MAX.div_euclid(DAY_NS));
        assert_eq!(
            found.iter().map(shown).collect::<Vec<_>>(),
            [
                vec![("a", 1, 1), ("wide", least, 1)],
                vec![("b", 2, 2), ("wide", 1, 2), ("w2", 1, 2)],
                vec![("c", 3, 3), ("wide", 2, most), ("w2", 2, most)],
            ]
        );
        // Each instant of a wide source is in one of its parts, and minutes of counts are not cut.
        let parts: Vec<TimeRange> =
            found.iter().flat_map(|c| c.iter().filter(|m| m.source == "wide")).map(|m| m.times).collect();
        assert!(
            parts.windows(2).all(|pair| pair[0].end == pair[1].start && (pair[0].end - 1) % MINUTE_NS == 0)
        );
        let alone = clusters(vec![timed(0, 9, "wide")], Order::Any);
        assert_eq!((alone.len(), alone[0][0].times), (1, TimeRange::inclusive(0, 9 * DAY_NS)));
    }

    #[test]
    fn overlapping_sources_are_in_one_cluster() {
        let oldest_first = [vec!["early", "touches early", "inside"], vec!["alone"], vec!["late"]];
        assert_eq!(names(Order::OldestFirst), oldest_first);
        let newest_first: Vec<_> = oldest_first.into_iter().rev().collect();
        assert_eq!(names(Order::NewestFirst), newest_first);
    }
}
