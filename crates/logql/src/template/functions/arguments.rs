//! Arguments of template functions, converted as Go and sprig do.

use crate::template::value::Value;

/// An argument that must be text.
pub fn text_argument(value: &Value) -> Result<&str, String> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(format!("wrong type for value; expected string; got {}", other.type_name())),
    }
}

/// An argument that must be an integer.
pub fn int_argument(value: &Value) -> Result<i64, String> {
    match value {
        Value::Int(n) => Ok(*n),
        other => Err(format!("wrong type for value; expected int; got {}", other.type_name())),
    }
}

/// Converts any value to an integer, as sprig's `int` does; 0 if it is not a number.
pub fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(n) => *n,
        Value::Float(n) => *n as i64,
        Value::Bool(b) => i64::from(*b),
        Value::Text(text) if text.len() > 2 && text.starts_with('0') => {
            // The text after the zero may begin inside a character.
            let digits = text.get(2..).unwrap_or("");
            match text.as_bytes()[1] {
                b'x' | b'X' => i64::from_str_radix(digits, 16).unwrap_or(0),
                b'o' | b'O' => i64::from_str_radix(digits, 8).unwrap_or(0),
                b'b' | b'B' => i64::from_str_radix(digits, 2).unwrap_or(0),
                _ => text.parse().unwrap_or(0),
            }
        }
        Value::Text(text) => {
            let trimmed = text.trim_start_matches('0');
            let digits = if trimmed.is_empty() && !text.is_empty() { "0" } else { trimmed };
            digits.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Converts any value to a float, as sprig's `float64` does; 0 if it is not a number.
pub fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int(n) => *n as f64,
        Value::Float(n) => *n,
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Text(text) => sandur_model::go_text::parse_float(text).unwrap_or(0.0),
        _ => 0.0,
    }
}
