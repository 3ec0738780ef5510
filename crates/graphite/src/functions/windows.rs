//! The sizes of sliding windows: a number of points, or a duration.

use crate::attime::parse_offset;
use crate::error::{Error, Result};
use crate::number::Number;
use crate::parameter::Argument;
use crate::series::Series;

/// The size of a window.
pub(super) enum WindowSize {
    /// A duration: its text and its seconds.
    Length(String, i64),
    /// A number of points.
    Points(Number),
}

impl WindowSize {
    pub(super) fn of(argument: Argument) -> Result<Self> {
        match argument {
            Argument::Text(text) => {
                let seconds = parse_offset(&text)?.abs();
                Ok(Self::Length(text, seconds))
            }
            Argument::Number(number) if number.value() >= 0.0 && number.value() < 1e15 => {
                Ok(Self::Points(number))
            }
            _ => Err(Error::invalid("a window is a number of points or a length of time such as '10min'")),
        }
    }

    fn whole(number: Number) -> i64 {
        number.value() as i64
    }

    /// The seconds by which series must be fetched earlier to fill the first window.
    pub(super) fn preview(&self, list: &[Series]) -> Result<i64> {
        let longest = list.iter().map(|series| series.step).max().unwrap_or(0);
        match self {
            Self::Length(_, seconds) => Ok(*seconds),
            Self::Points(number) => longest
                .checked_mul(Self::whole(*number))
                .ok_or_else(|| Error::invalid(format!("a window of {number} points is too long"))),
        }
    }

    /// The number of points in the window, for series with this step.
    pub(super) fn points(&self, step: i64) -> usize {
        let points = match self {
            Self::Length(_, seconds) => seconds / step.max(1),
            Self::Points(number) => Self::whole(*number),
        };
        usize::try_from(points).unwrap_or(usize::MAX)
    }

    /// The form in series names.
    pub(super) fn in_name(&self) -> String {
        match self {
            Self::Length(text, _) => format!("\"{text}\""),
            Self::Points(number) => number.to_string(),
        }
    }

    /// The form in tags.
    pub(super) fn in_tag(&self) -> String {
        match self {
            Self::Length(text, _) => text.clone(),
            Self::Points(number) => number.to_string(),
        }
    }
}
