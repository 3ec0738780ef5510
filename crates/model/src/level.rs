//! The detected severity of a log entry, with Loki's names.

/// Severity of an entry. The numbers are stored on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Level {
    /// Detection is disabled, or the client sent its own `detected_level`.
    #[default]
    None = 0,
    /// Detection found no level.
    Unknown = 1,
    /// trace
    Trace = 2,
    /// debug
    Debug = 3,
    /// info
    Info = 4,
    /// warn
    Warn = 5,
    /// error
    Error = 6,
    /// critical
    Critical = 7,
    /// fatal
    Fatal = 8,
}

impl Level {
    /// Every level, in the order of the numbers.
    pub const EVERY: [Self; 9] = [
        Self::None,
        Self::Unknown,
        Self::Trace,
        Self::Debug,
        Self::Info,
        Self::Warn,
        Self::Error,
        Self::Critical,
        Self::Fatal,
    ];

    /// The value of `detected_level`; empty for [`Level::None`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Unknown => "unknown",
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Fatal => "fatal",
        }
    }

    /// The level with this number, if there is one.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::EVERY.get(usize::from(number)).copied()
    }

    /// The level with exactly this `detected_level` value, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::EVERY.into_iter().skip(1).find(|level| level.as_str() == name)
    }
}
