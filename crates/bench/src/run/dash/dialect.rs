//! The protocols of the measured servers, and how data is pushed to them.

use anyhow::{Result, bail};

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Prometheus's API and remote write; also Mimir and Sandur.
    Prometheus,
    /// The same of VictoriaMetrics.
    VictoriaMetrics,
    /// Loki's API and push; also Sandur.
    Loki,
    /// LogsQL of VictoriaLogs and Loki's push.
    VictoriaLogs,
}

impl Dialect {
    /// All names.
    pub const NAMES: [&str; 4] = ["prometheus", "victoria-metrics", "loki", "victoria-logs"];

    /// The protocol of this name.
    pub fn of_name(name: &str) -> Result<Self> {
        Ok(match name {
            "prometheus" => Self::Prometheus,
            "victoria-metrics" => Self::VictoriaMetrics,
            "loki" => Self::Loki,
            "victoria-logs" => Self::VictoriaLogs,
            _ => bail!("'{name}' is none of {}", Self::NAMES.join(", ")),
        })
    }

    /// Whether the server stores metrics; otherwise it stores logs.
    pub fn is_of_metrics(self) -> bool {
        matches!(self, Self::Prometheus | Self::VictoriaMetrics)
    }

    /// The usual path of pushes.
    pub(super) fn push_path(self) -> &'static str {
        match self {
            Self::Prometheus | Self::VictoriaMetrics => "/api/v1/write",
            Self::Loki => "/loki/api/v1/push",
            Self::VictoriaLogs => "/insert/loki/api/v1/push",
        }
    }

    /// Headers of pushes.
    pub(super) fn push_headers(self) -> &'static [&'static str] {
        match self {
            Self::Prometheus | Self::VictoriaMetrics => &[
                "Content-Type: application/x-protobuf",
                "Content-Encoding: snappy",
                "X-Prometheus-Remote-Write-Version: 0.1.0",
            ],
            Self::Loki | Self::VictoriaLogs => &["Content-Type: application/x-protobuf"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_unknown_ones_explained() {
        for name in Dialect::NAMES {
            assert!(Dialect::of_name(name).is_ok(), "{name}");
        }
        let unknown = Dialect::of_name("influx").unwrap_err().to_string();
        assert!(unknown.contains("victoria-metrics"), "{unknown}");
    }
}
