//! JSON in the form of Python's `json.dumps`.

use std::fmt::Write;

use sandur_model::decimal::push_whole_float;

use crate::number::push_repr;
use crate::rendered::Rendered;

/// Writes a text in quotes, with characters outside of ASCII escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for sign in text.chars() {
        match sign {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(sign),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
    out
}

/// Formats a value. NaN is `null`; infinity is `1e9999`, which other parsers read as infinity.
pub(crate) fn value(value: Option<f64>, is_whole: bool) -> String {
    let mut out = Vec::new();
    push_value(&mut out, value, is_whole);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends a value.
pub(crate) fn push_value(out: &mut Vec<u8>, value: Option<f64>, is_whole: bool) {
    match value {
        None => out.extend_from_slice(b"null"),
        Some(value) if value.is_nan() => out.extend_from_slice(b"null"),
        Some(f64::INFINITY) => out.extend_from_slice(b"1e9999"),
        Some(f64::NEG_INFINITY) => out.extend_from_slice(b"-1e9999"),
        Some(value) if !is_whole => push_repr(out, value),
        Some(value) if push_whole_float(out, value) => {}
        Some(value) => out.extend_from_slice(format!("{value:.0}").as_bytes()),
    }
}

/// Returns JSON as a body, wrapped in a call of the client's function if it names one.
pub(crate) fn wrapped(content_type: &'static str, mut body: Vec<u8>, callback: Option<&str>) -> Rendered {
    let Some(callback) = callback.filter(|callback| !callback.is_empty()) else {
        return Rendered { content_type, body };
    };
    let mut wrapped = format!("{callback}(").into_bytes();
    wrapped.append(&mut body);
    wrapped.push(b')');
    Rendered { content_type: "text/javascript", body: wrapped }
}

/// The white space that `json.dumps` writes between the parts of a list or an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pretty: bool,
}

impl Layout {
    pub(crate) fn new(pretty: bool) -> Self {
        Self { pretty }
    }

    /// Joins parts between brackets, at `depth` levels of nesting.
    pub(crate) fn join(self, (open, close): (char, char), depth: usize, parts: &[String]) -> String {
        if parts.is_empty() {
            return format!("{open}{close}");
        }
        if !self.pretty {
            return format!("{open}{}{close}", parts.join(", "));
        }
        let (outer, inner) = ("  ".repeat(depth), "  ".repeat(depth + 1));
        format!("{open}\n{inner}{}\n{outer}{close}", parts.join(&format!(",\n{inner}")))
    }
}
