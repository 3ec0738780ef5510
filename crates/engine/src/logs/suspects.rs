//! Finds rows that may be stored twice.
//!
//! A client that retries a push after a lost answer sends rows that are already stored. They end up in
//! two blocks, or in a block and a head. Two sources (blocks or heads) can have the same row only where
//! both have rows of one stream in a common time range. The bounds in the footers alone show that all
//! other rows are unique; these are never compared.

use std::collections::HashMap;

use sandur_model::{StreamId, Suspect};

/// The rows of one stream in one source: their first and last timestamp.
#[derive(Clone, Copy, Debug)]
pub struct StreamSpan {
    /// The stream.
    pub stream: StreamId,
    /// First timestamp in the source.
    pub first: i64,
    /// Last timestamp in the source.
    pub last: i64,
}

/// For each stream with overlapping spans, the range that covers all overlaps.
pub type Suspects = HashMap<StreamId, Suspect, foldhash::fast::RandomState>;

/// Finds the streams with overlapping spans. Each source has at most one span per stream.
pub fn find_suspects(mut spans: Vec<StreamSpan>) -> Suspects {
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

fn widen(suspects: &mut Suspects, stream: StreamId, meeting: Suspect) {
    let known = suspects.entry(stream).or_insert(meeting);
    known.first = known.first.min(meeting.first);
    known.last = known.last.max(meeting.last);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(stream: u128, first: i64, last: i64) -> StreamSpan {
        StreamSpan { stream: StreamId(stream), first, last }
    }

    #[test]
    fn only_overlapping_spans_are_suspect() {
        let found = find_suspects(vec![
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
