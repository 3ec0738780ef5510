//! Numbers in forms for people: `humanize` and similar functions, with Prometheus's results.

use sandur_logql::template::{Instant, Site, Value, of_go};

/// Prefixes of units from 1,000 up, of units from 1,024 up, and of units below one.
const LARGE: [&str; 8] = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
const BINARY: [&str; 8] = ["ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"];
const SMALL: [&str; 8] = ["m", "u", "n", "p", "f", "a", "z", "y"];

/// Four significant digits: Go's `%.4g`.
fn short(site: &Site<'_>, value: f64) -> Result<String, String> {
    let printf = of_go("printf").ok_or("printf is missing")?;
    match (printf.call)(site, vec![super::data::text("%.4g"), Value::Float(value)])? {
        Value::Text(text) => Ok(text.to_string()),
        _ => Err("printf made no text".to_owned()),
    }
}

/// Divides by `unit` while the value has at least that size. Returns the prefix.
fn reduce(value: &mut f64, unit: f64, prefixes: [&'static str; 8]) -> &'static str {
    let mut found = "";
    for prefix in prefixes {
        if value.abs() < unit {
            break;
        }
        found = prefix;
        *value /= unit;
    }
    found
}

/// Multiplies by 1,000 while the value is below one. Returns the prefix.
fn enlarge(value: &mut f64) -> &'static str {
    let mut found = "";
    for prefix in SMALL {
        if value.abs() >= 1.0 {
            break;
        }
        found = prefix;
        *value *= 1_000.0;
    }
    found
}

/// `1234567` as `1.235M`.
pub fn decimal(site: &Site<'_>, mut value: f64) -> Result<String, String> {
    if value == 0.0 || !value.is_finite() {
        return short(site, value);
    }
    let prefix = match value.abs() >= 1.0 {
        true => reduce(&mut value, 1_000.0, LARGE),
        false => enlarge(&mut value),
    };
    Ok(format!("{}{prefix}", short(site, value)?))
}

/// `1048576` as `1Mi`.
pub fn binary(site: &Site<'_>, mut value: f64) -> Result<String, String> {
    if value.abs() <= 1.0 || !value.is_finite() {
        return short(site, value);
    }
    let prefix = reduce(&mut value, 1_024.0, BINARY);
    Ok(format!("{}{prefix}", short(site, value)?))
}

/// `0.1234` as `12.34%`.
pub fn percentage(site: &Site<'_>, value: f64) -> Result<String, String> {
    Ok(format!("{}%", short(site, value * 100.0)?))
}

/// Seconds, as `1h 2m 3s` or `12.5ms`.
pub fn duration(site: &Site<'_>, mut value: f64) -> Result<String, String> {
    if !value.is_finite() {
        return short(site, value);
    }
    if value == 0.0 {
        return Ok(format!("{}s", short(site, value)?));
    }
    if value.abs() < 1.0 {
        let prefix = enlarge(&mut value);
        return Ok(format!("{}{prefix}s", short(site, value)?));
    }
    let sign = if value < 0.0 { "-" } else { "" };
    value = value.abs();
    let whole = value as i64;
    let (seconds, minutes) = (whole % 60, whole / 60 % 60);
    let (hours, days) = (whole / 3_600 % 24, whole / 86_400);
    Ok(match (days, hours, minutes) {
        (0, 0, 0) => format!("{sign}{}s", short(site, value)?),
        (0, 0, _) => format!("{sign}{minutes}m {seconds}s"),
        (0, ..) => format!("{sign}{hours}h {minutes}m {seconds}s"),
        _ => format!("{sign}{days}d {hours}h {minutes}m {seconds}s"),
    })
}

/// A time from seconds since the epoch.
pub fn time(seconds: f64) -> Result<Instant, String> {
    if !seconds.is_finite() {
        return Err("value is NaN or Inf".to_owned());
    }
    let ns = seconds * 1e9;
    if ns.abs() >= i64::MAX as f64 {
        let reason = "cannot be represented as a nanoseconds timestamp since it overflows int64";
        return Err(format!("{seconds} {reason}"));
    }
    // Prometheus's times are milliseconds.
    let ms = ns as i64 / 1_000_000;
    Ok(Instant::utc(ms * 1_000_000))
}
