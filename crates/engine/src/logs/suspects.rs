//! Finds rows that may be stored twice.
//!
//! A client that retries a push after a lost answer sends rows that are already stored. They end up in
//! two blocks, or in a block and a head. Two sources (blocks or heads) can have the same row only where
//! both have rows of one stream in a common time range. The bounds in the footers alone show that all
//! other rows are unique; these are never compared. Of two blocks that were compared ([`CommonRows`]), only
//! common rows are suspect.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sandur_model::{StreamId, Suspect};

use super::common_rows::CommonRows;

/// The rows of one stream in one source: their first and last timestamp.
#[derive(Clone, Copy, Debug)]
pub struct StreamSpan {
    /// The number of the source.
    pub source: u32,
    /// The stream.
    pub stream: StreamId,
    /// First timestamp in the source.
    pub first: i64,
    /// Last timestamp in the source.
    pub last: i64,
}

/// For each stream with overlapping spans, the range that covers all overlaps.
pub type Suspects = HashMap<StreamId, Suspect, foldhash::fast::RandomState>;

/// Most pairs of overlapping spans that are considered one by one.
const OVERLAPS_MAX: usize = 1 << 20;

/// Finds the streams with overlapping spans, and sorts the spans by stream and time. Each source has at
/// most one span per stream.
pub fn find_suspects(spans: &mut [StreamSpan]) -> Suspects {
    spans.sort_unstable_by_key(|s| (s.stream, s.first));
    let mut suspects = Suspects::default();
    let mut reach: Option<(StreamId, i64)> = None;
    for span in spans {
        match reach {
            Some((stream, last)) if stream == span.stream => {
                if span.first <= last {
                    let meeting = Suspect { first: span.first, last: span.last.min(last) };
                    widen(&mut suspects, stream, meeting);
                }
                reach = Some((stream, last.max(span.last)));
            }
            _ => reach = Some((span.stream, span.last)),
        }
    }
    suspects
}

/// Numbers of two sources, the lower one first.
pub type Pair = (u32, u32);

/// The pairs of sources that have overlapping spans, of those that `is_wanted`. The spans are sorted.
/// `None`: there are more than `most`.
pub fn overlapping_pairs(
    spans: &[StreamSpan],
    most: usize,
    is_wanted: impl Fn(Pair) -> bool,
) -> Option<BTreeSet<Pair>> {
    let mut pairs = BTreeSet::new();
    let is_complete = each_overlap(spans, |pair, _, _| {
        if is_wanted(pair) {
            pairs.insert(pair);
        }
        pairs.len() <= most
    });
    is_complete.then_some(pairs)
}

/// Finds the streams with overlapping spans, where rows of some pairs of sources were compared. The spans are
/// sorted. `None`: they have too many overlaps.
pub fn find_suspects_after(
    spans: &[StreamSpan],
    compared: &BTreeMap<Pair, Arc<CommonRows>>,
) -> Option<Suspects> {
    let mut suspects = Suspects::default();
    let is_complete = each_overlap(spans, |pair, stream, overlap| {
        let meeting = match compared.get(&pair) {
            None => Some(overlap),
            Some(common) => common.of(stream),
        };
        meeting.into_iter().for_each(|meeting| widen(&mut suspects, stream, meeting));
        true
    });
    is_complete.then_some(suspects)
}

/// Calls `visit` with each overlap of two sorted spans until it returns false. Returns whether it was called
/// with all of them.
fn each_overlap(spans: &[StreamSpan], mut visit: impl FnMut(Pair, StreamId, Suspect) -> bool) -> bool {
    let mut open: Vec<&StreamSpan> = Vec::new();
    let mut visited = 0;
    for span in spans {
        open.retain(|before| before.stream == span.stream && before.last >= span.first);
        visited += open.len();
        if visited > OVERLAPS_MAX {
            return false;
        }
        for before in &open {
            let pair = (before.source.min(span.source), before.source.max(span.source));
            let overlap = Suspect { first: span.first, last: span.last.min(before.last) };
            if !visit(pair, span.stream, overlap) {
                return false;
            }
        }
        open.push(span);
    }
    true
}

fn widen(suspects: &mut Suspects, stream: StreamId, meeting: Suspect) {
    let known = suspects.entry(stream).or_insert(meeting);
    known.first = known.first.min(meeting.first);
    known.last = known.last.max(meeting.last);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(stream: u128, first: i64, last: i64) -> StreamSpan {
        StreamSpan { source: 0, stream: StreamId(stream), first, last }
    }

    #[test]
    fn only_overlapping_spans_are_suspect() {
        let found = find_suspects(&mut [
            span(1, 0, 10),
            span(1, 11, 20), // touches nothing
            span(2, 0, 10),
            span(2, 10, 20), // the same instant may hold the same row
            span(3, 0, 100),
            span(3, 20, 30), // inside
            span(3, 60, 70), // inside, beyond the end of its neighbour
            span(4, 5, 6),
        ]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[&StreamId(2)], Suspect { first: 10, last: 10 });
        assert_eq!(found[&StreamId(3)], Suspect { first: 20, last: 70 });
    }
}
