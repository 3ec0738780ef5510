//! Groups of sources whose times meet.
//!
//! Rows of different clusters never meet in time, so a scan finishes one cluster before it opens the
//! next: the footers in memory are those of one cluster, and a query for the latest rows opens no
//! older block than it needs. Hour blocks of different hours are clusters of their own.

use sandur_query::Order;

/// A source of rows and when it has them, both inclusive.
#[derive(Clone, Debug)]
pub struct Timed<T> {
    /// First timestamp.
    pub first: i64,
    /// Last timestamp.
    pub last: i64,
    /// The source.
    pub source: T,
}

/// Sources that meet in time, directly or through others, in the order that the query wants.
pub fn clusters<T>(mut sources: Vec<Timed<T>>, order: Order) -> Vec<Vec<Timed<T>>> {
    sources.sort_by_key(|s| (s.first, s.last));
    let mut clusters: Vec<Vec<Timed<T>>> = Vec::new();
    let mut reach = i64::MIN;
    for source in sources {
        let meets = source.first <= reach;
        reach = reach.max(source.last);
        match clusters.last_mut() {
            Some(cluster) if meets => cluster.push(source),
            _ => clusters.push(vec![source]),
        }
    }
    if order != Order::OldestFirst {
        clusters.reverse();
    }
    clusters
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
    fn sources_that_meet_are_together() {
        let oldest_first = [vec!["early", "touches early", "inside"], vec!["alone"], vec!["late"]];
        assert_eq!(names(Order::OldestFirst), oldest_first);
        let newest_first: Vec<_> = oldest_first.into_iter().rev().collect();
        assert_eq!(names(Order::NewestFirst), newest_first);
    }
}
