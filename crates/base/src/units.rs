//! Parses and formats byte sizes and durations in the units that operators use.
//!
//! Sizes: `512`, `64KiB`, `8 MiB`, `2GB` with `B KB MB GB TB` (decimal) and `KiB MiB GiB TiB` (binary);
//! a bare `K M G T` is binary, as in most command lines. Durations: the Prometheus form (`1h30m`, `15s`,
//! `250ms`, `7d`, `2w`, `1y`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes that prints in binary units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

/// Bytes in a KiB.
pub const KIB: u64 = 1 << 10;
/// Bytes in a MiB.
pub const MIB: u64 = 1 << 20;
/// Bytes in a GiB.
pub const GIB: u64 = 1 << 30;

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 1u64 << 40), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)];
        for (unit, size) in units {
            if self.0 >= size {
                let whole = self.0 as f64 / size as f64;
                return if self.0.is_multiple_of(size) {
                    write!(f, "{}{unit}", self.0 / size)
                } else {
                    write!(f, "{whole:.1}{unit}")
                };
            }
        }
        write!(f, "{}B", self.0)
    }
}

/// The text is neither a size nor a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a {what}: write it like {example}")]
pub struct ParseUnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

impl FromStr for ByteSize {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseUnitError { text: text.to_owned(), what: "size", example: "512MiB or 2GB" };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let number: f64 = trimmed[..split].parse().map_err(|_| bad())?;
        let unit = trimmed[split..].trim().to_ascii_lowercase();
        let factor: u64 = match unit.as_str() {
            "" | "b" => 1,
            "k" | "kib" => KIB,
            "m" | "mib" => MIB,
            "g" | "gib" => GIB,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(bad()),
        };
        let bytes = number * factor as f64;
        if !bytes.is_finite() || bytes > u64::MAX as f64 {
            return Err(bad());
        }
        Ok(Self(bytes as u64))
    }
}

/// Length of each unit of the Prometheus duration form in milliseconds, longest first.
const DURATION_UNITS: [(&str, u64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Parses a Prometheus duration: units from long to short, each at most once; `0` needs no unit.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    let bad = || ParseUnitError { text: text.to_owned(), what: "duration", example: "90s, 5m or 1h30m" };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut rest, mut total_ms, mut next_unit) = (text, 0u64, 0usize);
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = &rest[..end];
        let at = DURATION_UNITS.iter().position(|(u, _)| *u == unit).ok_or_else(bad)?;
        if at < next_unit {
            return Err(bad());
        }
        let ms = number.checked_mul(DURATION_UNITS[at].1).ok_or_else(bad)?;
        total_ms = total_ms.checked_add(ms).ok_or_else(bad)?;
        next_unit = at + 1;
        rest = &rest[end..];
    }
    Ok(Duration::from_millis(total_ms))
}

/// Formats a duration in the Prometheus form (`1h30m`), rounded down to milliseconds.
pub fn format_duration(duration: Duration) -> String {
    let mut ms = duration.as_millis() as u64;
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    // Years and weeks only when the duration is a multiple of them, as Prometheus prints them.
    for (at, (unit, size)) in DURATION_UNITS.iter().enumerate() {
        let count = ms / size;
        if count == 0 || (at < 2 && !ms.is_multiple_of(*size)) {
            continue;
        }
        text.push_str(&format!("{count}{unit}"));
        ms %= size;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_formatted() {
        for (text, bytes) in
            [("512", 512), ("64KiB", 65_536), ("8 MiB", 8 << 20), ("1.5G", 3 << 29), ("2GB", 2_000_000_000)]
        {
            assert_eq!(text.parse::<ByteSize>().unwrap().0, bytes, "{text}");
        }
        for text in ["", "MiB", "12 parsecs", "1e999"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert_eq!(ByteSize(8 << 20).to_string(), "8MiB");
        assert_eq!(ByteSize(1_500).to_string(), "1.5KiB");
    }

    #[test]
    fn durations_are_parsed_and_formatted() {
        for (text, ms) in
            [("0", 0), ("250ms", 250), ("1h30m", 5_400_000), ("7d", 604_800_000), ("1m500ms", 60_500)]
        {
            assert_eq!(parse_duration(text).unwrap().as_millis(), ms, "{text}");
        }
        for text in ["", "5", "m5", "1s1h", "1m1m", "3 m"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(format_duration(Duration::from_millis(5_400_000)), "1h30m");
        assert_eq!(format_duration(Duration::from_secs(8 * 86_400)), "8d");
    }
}
