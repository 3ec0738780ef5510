//! A point, and who takes it.

use std::ops::ControlFlow;

use crate::refusal::{Reason, Refusal};

/// A value of a metric at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point<'a> {
    /// The metric as it was sent: a path, or a name with tags.
    pub name: &'a str,
    /// Seconds since the epoch as they were sent, or now.
    pub seconds: f64,
    /// The value, which is a number or infinite.
    pub value: f64,
}

/// Takes what a reader finds.
pub trait Sink {
    /// Takes a point; `Break` ends reading.
    fn point(&mut self, point: Point<'_>) -> ControlFlow<()>;
    /// Is told of a message, or of a point of one, that is left out.
    fn refused(&mut self, refusal: Refusal, message: &[u8]);
}

/// Hands a point on as carbon would, or tells why it is left out.
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

/// A point as carbon takes it: -1 to -2 are now, and what is no number is none.
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
