//! How coarser archives are made of finer ones.

use std::fmt;

use crate::file::Form;

/// An aggregation method. whisper and go-carbon use some numbers for different ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Mean of the known values.
    Average,
    /// Their sum.
    Sum,
    /// The latest.
    Last,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Mean with unknown values as zeros.
    AverageZero,
    /// The one that is furthest from zero.
    AbsoluteMax,
    /// The one that is nearest to zero.
    AbsoluteMin,
    /// The earliest.
    First,
    /// Each coarser archive has its own.
    Mix,
    /// A percentile of the known values.
    Percentile(f32),
}

/// The first field of a file that is older than methods: the time of the last update.
const OLDEST_UPDATE: u32 = 1_024;

impl Method {
    /// The method of a number in a file's header.
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

    /// The method of an archive of a file with [`Method::Mix`].
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
