//! The spans of the series of a page: number of samples, first and last time.
//!
//! Layout: three packed columns with a number per series: samples, first time minus the page's, last time
//! minus the first (milliseconds).

use sandur_model::{MILLISECOND_NS, TimeRange};

use super::part::PART_INDEX;
use crate::codec::Reader;
use crate::codec::bitpack::{get_packed, put_packed};
use crate::error::Error;

/// Number and time bounds of the samples of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesSpan {
    /// Number of samples.
    pub rows: u64,
    /// First time in milliseconds since the epoch; [`i64::MAX`] when there are no samples.
    pub min_ms: i64,
    /// Last time, inclusive; [`i64::MIN`] when there are no samples.
    pub max_ms: i64,
}

impl Default for SeriesSpan {
    fn default() -> Self {
        Self { rows: 0, min_ms: i64::MAX, max_ms: i64::MIN }
    }
}

impl SeriesSpan {
    /// Whether it may have samples within a range.
    pub fn touches(&self, range: TimeRange) -> bool {
        Self::touching(range)(self)
    }

    /// Returns [`SeriesSpan::touches`] for many spans: converts the range to milliseconds once.
    pub fn touching(range: TimeRange) -> impl Fn(&Self) -> bool + Copy + Send {
        let (first_ms, last_ms) = range.milliseconds();
        // A range without a start includes times before the first that nanoseconds can express.
        let first_ms = if range.start == i64::MIN { i64::MIN } else { first_ms };
        move |span| span.rows > 0 && span.min_ms <= last_ms && span.max_ms >= first_ms
    }

    /// Whether all its samples are within a range.
    pub fn is_covered_by(&self, range: TimeRange) -> bool {
        let ns = |ms: i64| ms.saturating_mul(MILLISECOND_NS);
        range.covers(ns(self.min_ms), ns(self.max_ms))
    }
}

/// Appends the spans of a page of series.
pub(super) fn put_spans(out: &mut Vec<u8>, spans: &[SeriesSpan], first_ms: i64) {
    let mut column = |value: &dyn Fn(&SeriesSpan) -> u64| {
        put_packed(out, &spans.iter().map(value).collect::<Vec<_>>());
    };
    column(&|span| span.rows);
    column(&|span| if span.rows == 0 { 0 } else { span.min_ms.wrapping_sub(first_ms) as u64 });
    column(&|span| if span.rows == 0 { 0 } else { span.max_ms.wrapping_sub(span.min_ms) as u64 });
}

/// The spans of a page of series while the page is held: each column takes as few bytes as its numbers
/// need. Series of one scrape have equal spans.
#[derive(Debug)]
pub(super) struct PackedSpans {
    len: usize,
    first_ms: i64,
    rows: Numbers,
    afters: Numbers,
    lengths: Numbers,
}

/// A number per series.
#[derive(Debug)]
enum Numbers {
    Same(u64),
    Narrow(Box<[u32]>),
    Wide(Box<[u64]>),
}

impl Numbers {
    fn get(reader: &mut Reader<'_>, count: usize) -> Result<Self, Error> {
        let all = get_packed(reader, count, |number| number)?;
        let first = all.first().copied().unwrap_or(0);
        let (differing, high) = all.iter().fold((0, 0), |(d, h), number| (d | (number ^ first), h | number));
        Ok(match (differing, u32::try_from(high)) {
            (0, _) => Self::Same(first),
            (_, Ok(_)) => Self::Narrow(all.iter().map(|number| *number as u32).collect()),
            (_, Err(_)) => Self::Wide(all.into_boxed_slice()),
        })
    }

    fn at(&self, row: usize) -> u64 {
        match self {
            Self::Same(number) => *number,
            Self::Narrow(numbers) => numbers[row].into(),
            Self::Wide(numbers) => numbers[row],
        }
    }

    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Same(_) => 0,
            Self::Narrow(numbers) => size_of_val::<[u32]>(numbers) as u64,
            Self::Wide(numbers) => size_of_val::<[u64]>(numbers) as u64,
        }
    }
}

impl PackedSpans {
    /// Reads the spans of `count` series of a page with this first time.
    pub(super) fn get(plain: &[u8], count: usize, first_ms: i64, address: u64) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_INDEX, address, plain);
        let mut column = || Numbers::get(&mut reader, count);
        let (rows, afters, lengths) = (column()?, column()?, column()?);
        reader.finish()?;
        Ok(Self { len: count, first_ms, rows, afters, lengths })
    }

    /// Returns the number of spans.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the span at an index.
    ///
    /// # Panics
    /// When the index is not below [`PackedSpans::len`].
    pub(super) fn at(&self, row: usize) -> SeriesSpan {
        assert!(row < self.len, "a page of {} series has no row {row}", self.len);
        match self.rows.at(row) {
            0 => SeriesSpan::default(),
            rows => {
                let min_ms = self.first_ms.wrapping_add(self.afters.at(row) as i64);
                SeriesSpan { rows, min_ms, max_ms: min_ms.wrapping_add(self.lengths.at(row) as i64) }
            }
        }
    }

    /// Returns all spans, by ascending ordinal.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = SeriesSpan> {
        (0..self.len).map(|row| self.at(row))
    }

    /// Returns the bytes held in memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let columns = [&self.rows, &self.afters, &self.lengths];
        size_of::<Self>() as u64 + columns.into_iter().map(Numbers::memory_bytes).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(spans: &[SeriesSpan], first_ms: i64) -> PackedSpans {
        let mut plain = Vec::new();
        put_spans(&mut plain, spans, first_ms);
        PackedSpans::get(&plain, spans.len(), first_ms, 0).unwrap()
    }

    #[test]
    fn spans_of_any_numbers_round_trip() {
        let span = |rows, min_ms, max_ms| SeriesSpan { rows, min_ms, max_ms };
        let cases = [
            (vec![span(60, 1_000, 2_000); 300], 0),
            ((0..300).map(|n| span(n, 1_000 + n as i64, 9_000)).collect(), 12),
            (vec![span(1, i64::MIN, i64::MAX), span(u64::MAX, 5, 5), SeriesSpan::default()], 24),
            (vec![SeriesSpan::default(); 3], 0),
            (Vec::new(), 0),
        ];
        for (spans, bytes_each) in cases {
            let spans: Vec<SeriesSpan> =
                spans.into_iter().map(|s| if s.rows == 0 { SeriesSpan::default() } else { s }).collect();
            let first_ms = spans.iter().map(|span| span.min_ms).min().unwrap_or(0);
            let packed = packed(&spans, first_ms);
            assert_eq!(packed.iter().collect::<Vec<_>>(), spans);
            let numbers = packed.memory_bytes() - size_of::<PackedSpans>() as u64;
            assert!(numbers <= spans.len() as u64 * bytes_each, "{numbers} bytes for {}", spans.len());
        }
    }
}
