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

/// Hands a point on as carbon would: -1 to -2 are now, and what is no number is left out.
#[inline]
pub(crate) fn hand_on(
    sink: &mut dyn Sink,
    (name, seconds, value): (&str, f64, f64),
    now: i64,
    message: &[u8],
) -> ControlFlow<()> {
    if value.is_nan() {
        sink.refused(Refusal::of(Reason::NoNumber), message);
        return ControlFlow::Continue(());
    }
    if !seconds.is_finite() {
        sink.refused(Refusal::of(Reason::Timestamp), message);
        return ControlFlow::Continue(());
    }
    let seconds = if seconds.trunc() == -1.0 { now as f64 } else { seconds };
    sink.point(Point { name, seconds, value })
}
