//! The options of a pie.

use super::colors::Color;
use crate::series::Series;

/// The aggregate of a series that determines the size of its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Average,
    Maximum,
    Minimum,
}

/// The labels on slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    None,
    Number,
    Percent,
}

/// The options of a pie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pie {
    pub(super) mode: Mode,
    pub(super) labels: Labels,
    /// Slices below this (a number or a percentage, as `labels` says) have no label.
    pub(super) least: f64,
    pub(super) label_color: Color,
    /// Whether labels are rotated along the middle of their slices.
    pub(super) are_labels_rotated: bool,
}

impl Mode {
    /// The aggregate of a series, at least 0.
    pub(super) fn of(self, series: &Series) -> f64 {
        let values = series.points().flatten().filter(|value| value.is_finite());
        let value = match self {
            Self::Average => {
                let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
                sum / count as f64
            }
            Self::Maximum => values.fold(f64::NAN, f64::max),
            Self::Minimum => values.fold(f64::NAN, f64::min),
        };
        if value.is_finite() { value.max(0.0) } else { 0.0 }
    }
}

impl Labels {
    /// The label of a slice with this value and share of the total.
    pub(super) fn of(self, value: f64, share: f64, least: f64) -> Option<String> {
        match self {
            Self::Percent if share * 100.0 >= least => Some(format!("%{:.2}", share * 100.0)),
            Self::Number if value >= least && value < 10.0 && value.fract() != 0.0 => {
                Some(format!("{value:.2}"))
            }
            Self::Number if value >= least => Some(format!("{:.0}", value.trunc())),
            Self::None | Self::Number | Self::Percent => None,
        }
    }
}
