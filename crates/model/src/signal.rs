//! The signals (kinds of data), and datasets: the data of one signal of one tenant.
//!
//! There are two signals: logs and metrics. Graphite paths are series of metrics.

use std::fmt;

use crate::tenant::TenantId;

/// A kind of data. A block contains one signal; the WAL and the catalog contain both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Entries of streams.
    #[default]
    Logs,
    /// Samples of series.
    Metrics,
}

impl Signal {
    /// All signals.
    pub const ALL: [Self; 2] = [Self::Logs, Self::Metrics];

    /// The name of the signal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The data of one signal of one tenant: the unit of blocks, retention, merges and deletes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dataset {
    /// The owner of the data.
    pub tenant: TenantId,
    /// The kind of data.
    pub signal: Signal,
}

impl Dataset {
    /// The logs of a tenant.
    pub fn logs(tenant: TenantId) -> Self {
        Self { tenant, signal: Signal::Logs }
    }

    /// The metrics of a tenant.
    pub fn metrics(tenant: TenantId) -> Self {
        Self { tenant, signal: Signal::Metrics }
    }
}

impl fmt::Display for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of '{}'", self.signal, self.tenant)
    }
}
