//! Times in scripts.

/// Time zero of scripts: 2026-01-01 00:00 UTC, a multiple of every step that scripts use.
pub const EPOCH_NS: i64 = 1_767_225_600 * 1_000_000_000;

/// Reads a duration in Go's form, which may be negative. Returns nanoseconds.
pub fn duration(text: &str) -> Result<i64, String> {
    let (sign, body) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    if body == "0" {
        return Ok(0);
    }
    let wrong = || format!("duration '{text}'");
    let mut total = 0.0;
    let mut rest = body;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        let after = &rest[digits..];
        let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let unit = match &after[..letters] {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return Err(wrong()),
        };
        total += number * unit;
        rest = &after[letters..];
    }
    if body.is_empty() {
        return Err(wrong());
    }
    Ok((sign * total).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_go_durations() {
        assert_eq!(duration("1h2m3.5s4ms5us6ns"), Ok(3_723_504_005_006));
        assert_eq!(duration("-1.5m"), Ok(-90_000_000_000));
        assert_eq!(duration("10.000000001s"), Ok(10_000_000_001));
        for bad in ["", "1", "1d", "s", "1s2"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
