//! A point, and the sink that receives points.

use std::ops::ControlFlow;

use crate::refusal::{Reason, Refusal};

/// A value of a metric at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point<'a> {
    /// The metric's name as it was sent: a path, or a name with tags.
    pub name: &'a str,
    /// Seconds since the epoch: the timestamp as it was sent, or the current time.
    pub seconds: f64,
    /// The value: a number or an infinity, never NaN.
    pub value: f64,
}

/// Receives the results of a reader.
pub trait Sink {
    /// Receives a point. `Break` stops the reader.
    fn point(&mut self, point: Point<'_>) -> ControlFlow<()>;
    /// Receives the refusal of a message, or of one point of it.
    fn refused(&mut self, refusal: Refusal, message: &[u8]);
}

/// Passes a point to the sink, or the reason why carbon would not accept it.
#[inline]
pub(crate) fn hand_on(
    sink: &mut dyn Sink,
    point: (&str, f64, f64),
    now: i64,
    message: &[u8],
) -> ControlFlow<()> {
    match checked(point, now) {
        Ok(point) => sink.point(point),
        Err(reason) => {
            sink.refused(Refusal::of(reason), message);
            ControlFlow::Continue(())
        }
    }
}

/// Converts a point as carbon does: timestamps from -1 to above -2 mean now, and NaN is refused.
#[inline]
pub(crate) fn checked((name, seconds, value): (&str, f64, f64), now: i64) -> Result<Point<'_>, Reason> {
    if value.is_nan() {
        return Err(Reason::NoNumber);
    }
    if !seconds.is_finite() {
        return Err(Reason::Timestamp);
    }
    let seconds = if seconds.trunc() == -1.0 { now as f64 } else { seconds };
    Ok(Point { name, seconds, value })
}
