//! Reads `dns_sd_configs`.

use std::time::Duration;

use sandur_yaml::{ConfigError, Keys};

/// How often names are looked up if the configuration does not say so.
const REFRESH: Duration = Duration::from_secs(30);
/// The shortest interval between two look-ups of a name.
const REFRESH_MIN: Duration = Duration::from_secs(1);
/// The largest number of names of one entry.
const NAMES_MAX: usize = 1_000;

/// The type of the records that are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Host and port.
    Srv,
    /// IPv4 address.
    A,
    /// IPv6 address.
    Aaaa,
    /// Mail server.
    Mx,
    /// Name server.
    Ns,
}

impl RecordKind {
    fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "SRV" => Self::Srv,
            "A" => Self::A,
            "AAAA" => Self::Aaaa,
            "MX" => Self::Mx,
            "NS" => Self::Ns,
            _ => return None,
        })
    }
}

/// Names whose records are targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsDiscovery {
    /// The names.
    pub names: Vec<String>,
    /// The type of the records.
    pub kind: RecordKind,
    /// The port of targets, unless the records have ports.
    pub port: u16,
    /// How often the names are looked up.
    pub refresh: Duration,
}

pub(super) fn read(
    keys: &mut Keys<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<DnsDiscovery>, ConfigError> {
    keys.list("dns_sd_configs")?.iter().map(|node| entry(Keys::of(node)?, warnings)).collect()
}

fn entry(mut keys: Keys<'_>, warnings: &mut Vec<String>) -> Result<DnsDiscovery, ConfigError> {
    let line = keys.line;
    let wrong = |what: String| ConfigError::at(line, what);
    let names = keys.texts("names")?;
    let kind = keys.text("type")?.unwrap_or_else(|| "SRV".to_owned());
    let kind = RecordKind::parse(&kind)
        .ok_or_else(|| wrong(format!("type: '{kind}' is not one of SRV, A, AAAA, MX and NS")))?;
    let port = keys.count("port")?;
    let refresh = keys.duration("refresh_interval")?.unwrap_or(REFRESH).max(REFRESH_MIN);
    keys.finish(&[], warnings)?;
    if names.is_empty() {
        return Err(wrong("dns_sd_configs: names is missing".to_owned()));
    }
    if names.len() > NAMES_MAX {
        return Err(wrong(format!("names: there are {}, at most {NAMES_MAX} are allowed", names.len())));
    }
    if port == 0 && kind != RecordKind::Srv {
        return Err(wrong("port is missing: it is required for all types except SRV".to_owned()));
    }
    let port = u16::try_from(port).map_err(|_| wrong(format!("port: {port} is larger than 65535")))?;
    Ok(DnsDiscovery { names, kind, port, refresh })
}
