//! Windows that move over a series: so many points, or a length of time.

use crate::attime::parse_offset;
use crate::error::{Error, Result};
use crate::number::Number;
use crate::parameter::Argument;
use crate::series::Series;

/// The size of a window.
pub(super) enum WindowSize {
    /// A text and its seconds.
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

    /// Seconds before the first window that is asked for.
    pub(super) fn preview(&self, list: &[Series]) -> Result<i64> {
        let longest = list.iter().map(|series| series.step).max().unwrap_or(0);
        match self {
            Self::Length(_, seconds) => Ok(*seconds),
            Self::Points(number) => longest
                .checked_mul(Self::whole(*number))
                .ok_or_else(|| Error::invalid(format!("a window of {number} points is too long"))),
        }
    }

    /// How many points of a step are in it.
    pub(super) fn points(&self, step: i64) -> usize {
        let points = match self {
            Self::Length(_, seconds) => seconds / step.max(1),
            Self::Points(number) => Self::whole(*number),
        };
        usize::try_from(points).unwrap_or(usize::MAX)
    }

    /// As names hold it.
    pub(super) fn in_name(&self) -> String {
        match self {
            Self::Length(text, _) => format!("\"{text}\""),
            Self::Points(number) => number.to_string(),
        }
    }

    /// As tags hold it.
    pub(super) fn in_tag(&self) -> String {
        match self {
            Self::Length(text, _) => text.clone(),
            Self::Points(number) => number.to_string(),
        }
    }
}
