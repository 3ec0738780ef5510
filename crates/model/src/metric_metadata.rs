//! What senders say of a metric family: its type, its unit, its help text.

use std::fmt;

/// The type of a metric family, as Prometheus's text formats and remote write name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricKind {
    /// Not told.
    #[default]
    Unknown,
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of observations in buckets.
    Histogram,
    /// Buckets that go up and down.
    GaugeHistogram,
    /// Quantiles.
    Summary,
    /// A constant whose labels matter.
    Info,
    /// States, of which some are on.
    StateSet,
}

impl MetricKind {
    /// All of them, in the order of their numbers in remote write.
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

    /// Its name.
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

    /// Its number in remote write, and on disk.
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

/// What is told of one metric family.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricMetadata {
    /// The family: the name of its series without `_total`, `_bucket` and the like.
    pub family: Box<str>,
    /// Its type.
    pub kind: MetricKind,
    /// Its unit; empty when not told.
    pub unit: Box<str>,
    /// Its help text; empty when not told.
    pub help: Box<str>,
}

impl MetricMetadata {
    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> u64 {
        (size_of::<Self>() + self.family.len() + self.unit.len() + self.help.len()) as u64
    }
}
