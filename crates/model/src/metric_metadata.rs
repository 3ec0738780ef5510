//! Metadata of metric families, as clients send it: type, unit and help text.

use std::fmt;

/// The type of a metric family, as Prometheus's text formats and remote write name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricKind {
    /// The client did not send a type.
    #[default]
    Unknown,
    /// Only grows.
    Counter,
    /// Can rise and fall.
    Gauge,
    /// Counts of observations in buckets.
    Histogram,
    /// Counts in buckets that can rise and fall.
    GaugeHistogram,
    /// Quantiles.
    Summary,
    /// A constant 1 whose labels carry the information.
    Info,
    /// A set of states, each on or off.
    StateSet,
}

impl MetricKind {
    /// All kinds, in the order of their numbers in remote write.
    pub const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Counter,
        Self::Gauge,
        Self::Histogram,
        Self::GaugeHistogram,
        Self::Summary,
        Self::Info,
        Self::StateSet,
    ];

    /// The name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::GaugeHistogram => "gaugehistogram",
            Self::Summary => "summary",
            Self::Info => "info",
            Self::StateSet => "stateset",
        }
    }

    /// The number of the kind in remote write and on disk.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The metadata of one metric family.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricMetadata {
    /// The family: the name of its series without `_total`, `_bucket` and the like.
    pub family: Box<str>,
    /// The type of the family.
    pub kind: MetricKind,
    /// The unit; empty when the client did not send one.
    pub unit: Box<str>,
    /// The help text; empty when the client did not send one.
    pub help: Box<str>,
}

impl MetricMetadata {
    /// Bytes of memory that the metadata uses.
    pub fn memory_bytes(&self) -> u64 {
        (size_of::<Self>() + self.family.len() + self.unit.len() + self.help.len()) as u64
    }
}
