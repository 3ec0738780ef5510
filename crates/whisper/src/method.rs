//! How coarser archives are computed from finer ones.

use std::fmt;

use crate::form::Form;

/// An aggregation method. whisper and go-carbon use some codes for different methods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// The mean of the known values.
    Average,
    /// The sum of the known values.
    Sum,
    /// The latest value.
    Last,
    /// The largest value.
    Max,
    /// The smallest value.
    Min,
    /// The mean, with unknown values as zeros.
    AverageZero,
    /// The value furthest from zero.
    AbsoluteMax,
    /// The value nearest to zero.
    AbsoluteMin,
    /// The earliest value.
    First,
    /// Each coarser archive has a method of its own.
    Mix,
    /// A percentile of the known values.
    Percentile(f32),
}

/// In files from before methods, the first field is the time of the last update; larger codes are such
/// times.
const OLDEST_UPDATE: u32 = 1_024;

impl Method {
    /// Returns the method with a code of a file's header.
    pub(crate) fn of_file(code: u32, form: Form) -> Option<Self> {
        Some(match (code, form) {
            (code, Form::Classic) if code > OLDEST_UPDATE => Self::Average,
            (1, _) => Self::Average,
            (2, _) => Self::Sum,
            (3, _) => Self::Last,
            (4, _) => Self::Max,
            (5, _) => Self::Min,
            (6, Form::Classic) => Self::AverageZero,
            (7, Form::Classic) => Self::AbsoluteMax,
            (8, Form::Classic) => Self::AbsoluteMin,
            (6, Form::Compressed) => Self::First,
            (7, Form::Compressed) => Self::Mix,
            _ => return None,
        })
    }

    /// Returns the method of an archive of a file with [`Method::Mix`].
    pub(crate) fn of_archive(code: u8, percentile: f32) -> Option<Self> {
        match code {
            7 => None,
            8 => Some(Self::Percentile(percentile)),
            code => Self::of_file(u32::from(code), Form::Compressed),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Average => "average",
            Self::Sum => "sum",
            Self::Last => "last",
            Self::Max => "max",
            Self::Min => "min",
            Self::AverageZero => "avg_zero",
            Self::AbsoluteMax => "absmax",
            Self::AbsoluteMin => "absmin",
            Self::First => "first",
            Self::Mix => "mix",
            Self::Percentile(percentile) => return write!(f, "p{percentile}"),
        })
    }
}
