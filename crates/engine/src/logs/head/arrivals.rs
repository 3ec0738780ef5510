//! Counts the rows of a head by time span. The counts show whether a cached answer about some time is
//! still valid.
//!
//! Rows are counted in spans of five minutes, after readers can see them and before they are
//! acknowledged. Counts only grow, so equal counts mean equal rows.

use std::collections::BTreeMap;

use sandur_base::Id;
use sandur_model::{Entry, TimeRange};
use sandur_query::Holding;
use xxhash_rust::xxh3::xxh3_128;

/// Length of a span.
const SPAN_NS: i64 = 300 * 1_000_000_000;
/// The most spans (two weeks without a gap). Beyond that all spans become one.
const SPANS_MAX: usize = 4_096;

/// The rows of one tenant in a head, by time span.
#[derive(Default)]
pub(super) struct Arrivals {
    spans: BTreeMap<i64, Count>,
    /// The first and last span and the count of all rows, once there are too many spans.
    all: Option<(i64, i64, Count)>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    rows: u64,
    bytes: u64,
}

impl Arrivals {
    /// Counts rows that readers can see.
    pub fn add(&mut self, entries: &[Entry]) {
        let mut rest = entries;
        while let Some(first) = rest.first() {
            // Rows usually come in the order of time, so one lookup serves a run of them.
            let span = first.timestamp.div_euclid(SPAN_NS);
            let inside = |entry: &&Entry| entry.timestamp.div_euclid(SPAN_NS) == span;
            let rows = rest.iter().take_while(inside).count();
            let (counted, later) = rest.split_at(rows);
            let bytes = counted.iter().map(|entry| u64::from(entry.line.len)).sum();
            self.count(span, Count { rows: rows as u64, bytes });
            rest = later;
        }
    }

    fn count(&mut self, span: i64, more: Count) {
        if self.all.is_none() && self.spans.len() >= SPANS_MAX && !self.spans.contains_key(&span) {
            let mut sum = Count::default();
            self.spans.values().for_each(|count| sum.add(*count));
            let ends = self.spans.keys().next().zip(self.spans.keys().next_back());
            self.all = ends.map(|(first, last)| (*first, *last, sum));
            self.spans.clear();
        }
        match &mut self.all {
            Some((first, last, sum)) => {
                (*first, *last) = ((*first).min(span), (*last).max(span));
                sum.add(more);
            }
            None => self.spans.entry(span).or_default().add(more),
        }
    }

    /// The spans that overlap the range, as holdings of the head that begins at sequence number `start`.
    pub fn holdings(&self, incarnation: Id, start: u64, range: TimeRange) -> Vec<Holding> {
        let holding = |first: i64, last: i64, count: Count| Holding {
            first: first.saturating_mul(SPAN_NS),
            last: last.saturating_mul(SPAN_NS).saturating_add(SPAN_NS - 1),
            version: version(incarnation, [start as i64, first, last, count.rows as i64]),
            bytes: count.bytes.max(1),
        };
        let all = self.all.map(|(first, last, count)| holding(first, last, count));
        let spans = self.spans.iter().map(|(span, count)| holding(*span, *span, *count));
        spans.chain(all).filter(|h| range.touches(h.first, h.last)).collect()
    }
}

impl Count {
    fn add(&mut self, more: Self) {
        self.rows += more.rows;
        self.bytes += more.bytes;
    }
}

fn version(incarnation: Id, numbers: [i64; 4]) -> u128 {
    let mut bytes = Vec::with_capacity(48);
    bytes.extend_from_slice(&incarnation.to_bytes());
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    xxh3_128(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_model::{Level, Span};

    fn entries(minutes: &[i64]) -> Vec<Entry> {
        let entry = |minute: &i64| Entry {
            timestamp: minute * 60 * 1_000_000_000,
            line: Span { start: 0, len: 10 },
            metadata_start: 0,
            metadata_len: 0,
            level: Level::None,
        };
        minutes.iter().map(entry).collect()
    }

    fn seen(arrivals: &Arrivals, first: i64, last: i64) -> Vec<(u128, u64)> {
        let minute = |n: i64| n * 60 * 1_000_000_000;
        let range = TimeRange::inclusive(minute(first), minute(last));
        let holdings = arrivals.holdings(Id(1), 7, range);
        holdings.into_iter().map(|h| (h.version, h.bytes)).collect()
    }

    #[test]
    fn versions_change_where_rows_come() {
        let mut arrivals = Arrivals::default();
        arrivals.add(&entries(&[0, 1, 4, 5, 12, 3]));
        let (early, late) = (seen(&arrivals, 0, 4), seen(&arrivals, 10, 20));
        assert_eq!(early.iter().map(|s| s.1).collect::<Vec<_>>(), [40]);
        assert_eq!((seen(&arrivals, 0, 20).len(), seen(&arrivals, 15, 20).len()), (3, 0));
        arrivals.add(&entries(&[14]));
        assert!(seen(&arrivals, 0, 4) == early && seen(&arrivals, 10, 20) != late);
    }

    #[test]
    fn too_many_spans_become_one() {
        let mut arrivals = Arrivals::default();
        let spread: Vec<i64> = (0..SPANS_MAX as i64 + 1).map(|n| n * 5).collect();
        arrivals.add(&entries(&spread));
        let before = seen(&arrivals, 0, 1);
        assert_eq!((before.len(), before[0].1), (1, (SPANS_MAX as u64 + 1) * 10));
        arrivals.add(&entries(&[-1_000]));
        assert_ne!(seen(&arrivals, 0, 1), before);
        assert_eq!(seen(&arrivals, -1_000, -1_000).len(), 1);
    }
}
