//! Numbers of the text formats: those that Go's `ParseFloat` accepts, without `_` and hexadecimal.

/// The bits of every NaN, however it is written; they differ from those of a stale marker.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0001;

/// Parses a value.
pub(super) fn value(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    Some(if value.is_nan() { f64::from_bits(NAN_BITS) } else { value })
}

/// Converts seconds with a fraction to milliseconds.
pub(super) fn seconds_in_ms(text: &str) -> Option<i64> {
    let ms = text.parse::<f64>().ok()? * 1_000.0;
    // A number out of range would saturate.
    (ms.is_finite() && ms.abs() < 9e18).then_some(ms as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_as_by_prometheus() {
        for (text, expected) in [("1", 1.0), ("-1.5e3", -1500.0), ("+Inf", f64::INFINITY), (".5", 0.5)] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        assert_eq!(value("NaN").map(f64::to_bits), Some(NAN_BITS));
        assert_eq!(value("-inf"), Some(f64::NEG_INFINITY));
        for text in ["", "0x1p-2", "1_000", "one", "1 "] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(seconds_in_ms("1.5"), Some(1_500));
        assert_eq!((seconds_in_ms("1e300"), seconds_in_ms("NaN")), (None, None));
    }
}
