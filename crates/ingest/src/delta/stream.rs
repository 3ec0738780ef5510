//! One series of delta temporality: its total, and which points may follow.
//!
//! The rules are those of the OpenTelemetry collector's processor: a point must be newer than the last
//! one, and its start must not be before that of the series. A gap before the point, or an overlap with
//! the last one, is ignored.

use super::total::{Difference, Total};

/// The state of a series.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// The start of the first point, in milliseconds; 0 when it is not known.
    pub(super) start_ms: i64,
    /// The time of the last point, in milliseconds.
    pub(super) last_ms: i64,
    pub(super) shape: u32,
    pub(super) total: Total,
}

/// A point of delta temporality.
pub(super) struct Point<'p> {
    pub(super) start_ms: i64,
    pub(super) time_ms: i64,
    /// A hash of the explicit bounds of a classic histogram, 0 for other kinds; points of different
    /// shapes cannot be added.
    pub(super) shape: u32,
    /// The difference to add; `None` when the point ends the series.
    pub(super) difference: Option<Difference<'p>>,
}

/// Why a point is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// Its time is not after that of the series' last point, `last_ms`.
    OutOfOrder { last_ms: i64 },
    /// Its start is before that of the series, `start_ms`.
    OlderStart { start_ms: i64 },
    /// The sum has more buckets than allowed, even in the coarsest schema.
    TooManyBuckets,
}

impl Stream {
    /// Returns the state after a point that follows `state`; `None` when the point ends the series.
    pub(super) fn after(
        state: Option<&Self>,
        point: &Point<'_>,
        buckets_max: u64,
    ) -> Result<Option<Self>, Rejected> {
        if let Some(state) = state {
            if point.start_ms != 0 && point.start_ms < state.start_ms {
                return Err(Rejected::OlderStart { start_ms: state.start_ms });
            }
            if point.time_ms <= state.last_ms {
                return Err(Rejected::OutOfOrder { last_ms: state.last_ms });
            }
        }
        let Some(difference) = &point.difference else { return Ok(None) };
        let too_many = |_| Rejected::TooManyBuckets;
        let &Point { start_ms, time_ms: last_ms, shape, .. } = point;
        if let Some(state) = state.filter(|state| state.shape == shape)
            && let Some(total) = state.total.plus(difference, buckets_max).map_err(too_many)?
        {
            return Ok(Some(Self { start_ms: state.start_ms, last_ms, shape, total }));
        }
        let total = Total::of(difference, buckets_max).map_err(too_many)?;
        Ok(Some(Self { start_ms, last_ms, shape, total }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds points of (start, time, value) one after the other, and returns each total with its start, or
    /// why the point was refused.
    fn series(points: &[(i64, i64, f64)]) -> Vec<Result<(i64, f64), Rejected>> {
        let mut state: Option<Stream> = None;
        let mut shown = Vec::new();
        for &(start_ms, time_ms, value) in points {
            let point = Point { start_ms, time_ms, shape: 0, difference: Some(Difference::Number(value)) };
            shown.push(Stream::after(state.as_ref(), &point, 0).map(|next| {
                let next = next.unwrap();
                let Total::Number(sum) = next.total else { panic!("points are numbers") };
                let shown = (next.start_ms, sum.value());
                state = Some(next);
                shown
            }));
        }
        shown
    }

    #[test]
    fn points_add_up_from_the_start_of_the_first_across_gaps_and_overlaps() {
        let adjacent_gap_overlap = [(10, 20, 1.0), (20, 30, 2.0), (50, 60, 4.0), (55, 70, 8.0)];
        assert_eq!(
            series(&adjacent_gap_overlap),
            [Ok((10, 1.0)), Ok((10, 3.0)), Ok((10, 7.0)), Ok((10, 15.0))]
        );
        assert_eq!(series(&[(0, 20, 1.0), (20, 30, -3.0)]), [Ok((0, 1.0)), Ok((0, -2.0))]);
        assert_eq!(series(&[(10, 20, 1.0), (0, 30, 3.0)]), [Ok((10, 1.0)), Ok((10, 4.0))]);
    }

    #[test]
    fn a_late_point_or_one_with_an_older_start_is_refused() {
        let late = [(10, 20, 1.0), (10, 20, 1.0), (10, 15, 1.0), (5, 30, 1.0), (20, 30, 1.0)];
        assert_eq!(
            series(&late),
            [
                Ok((10, 1.0)),
                Err(Rejected::OutOfOrder { last_ms: 20 }),
                Err(Rejected::OutOfOrder { last_ms: 20 }),
                Err(Rejected::OlderStart { start_ms: 10 }),
                Ok((10, 2.0)),
            ]
        );
        let edges = [(i64::MIN, i64::MIN, 1.0), (i64::MAX, i64::MAX, 1.0)];
        assert_eq!(series(&edges), [Ok((i64::MIN, 1.0)), Ok((i64::MIN, 2.0))]);
    }

    #[test]
    fn another_shape_starts_a_new_total_and_an_end_removes_it() {
        let number = |shape, start_ms, time_ms| Point {
            start_ms,
            time_ms,
            shape,
            difference: Some(Difference::Number(1.0)),
        };
        let first = Stream::after(None, &number(1, 5, 10), 0).unwrap().unwrap();
        let other = Stream::after(Some(&first), &number(2, 10, 20), 0).unwrap().unwrap();
        assert_eq!((other.start_ms, other.last_ms), (10, 20));
        let end = |time_ms| Point { difference: None, ..number(2, 0, time_ms) };
        assert!(Stream::after(Some(&other), &end(20), 0).is_err());
        assert!(Stream::after(Some(&other), &end(21), 0).unwrap().is_none());
    }
}
