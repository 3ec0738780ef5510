//! Converts OTLP's `AnyValue` to text: strings unchanged, numbers as in JSON, bytes in base64, lists and
//! maps as JSON with sorted keys.
//!
//! `AnyValue{string=1, bool=2, int=3, double=4, array=5:{values=1}, kvlist=6:{values=1:{key=1,
//! value=2}}, bytes=7}`. Nesting is bounded by [`VALUE_DEPTH_MAX`], output by the caller's limit.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sandur_model::Span;
use sandur_protobuf::{Reader, Wire};

use crate::error::Error;
use crate::limits_check::VALUE_DEPTH_MAX;

/// A value whose nested values are still encoded.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Empty,
    Text(Span),
    Bool(bool),
    Int(i64),
    Double(f64),
    List(Reader<'a>),
    Map(Reader<'a>),
    Bytes(Span),
}

impl Value<'_> {
    /// Returns the most bytes of memory that writing the value takes: the text, twice while its buffer
    /// grows, and the sorted pairs of its maps.
    pub(crate) fn text_bytes_max(self) -> u64 {
        // A byte becomes at most six bytes (an escape). A pair takes at least four bytes and becomes a
        // list entry.
        const PER_BYTE: u64 = 2 * 6 + 16;
        let sent = match self {
            Self::List(nested) | Self::Map(nested) => nested.rest().len() as u64,
            Self::Text(span) | Self::Bytes(span) => u64::from(span.len),
            Self::Empty | Self::Bool(_) | Self::Int(_) | Self::Double(_) => 0,
        };
        sent.saturating_mul(PER_BYTE) + 64
    }
}

/// Reads an `AnyValue`.
pub(crate) fn any_value(mut message: Reader<'_>) -> Result<Value<'_>, Error> {
    let mut value = Value::Empty;
    while let Some(key) = message.key()? {
        value = match key {
            (1, Wire::Bytes) => Value::Text(message.span()?),
            (2, Wire::Varint) => Value::Bool(message.varint()? != 0),
            (3, Wire::Varint) => Value::Int(message.varint()? as i64),
            (4, Wire::Fixed64) => Value::Double(message.double()?),
            (5, Wire::Bytes) => Value::List(message.message()?),
            (6, Wire::Bytes) => Value::Map(message.message()?),
            (7, Wire::Bytes) => Value::Bytes(message.span()?),
            (_, wire) => {
                message.skip(wire)?;
                value
            }
        };
    }
    Ok(value)
}

/// Reads a `KeyValue{key=1, value=2}`.
pub(crate) fn key_value(mut message: Reader<'_>) -> Result<(Span, Value<'_>), Error> {
    let (mut key, mut value) = (Span::default(), Value::Empty);
    while let Some(field) = message.key()? {
        match field {
            (1, Wire::Bytes) => key = message.span()?,
            (2, Wire::Bytes) => value = any_value(message.message()?)?,
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok((key, value))
}

/// Fails when `depth` exceeds the bound on nesting.
pub(crate) fn check_depth(depth: u32) -> Result<(), Error> {
    if depth > VALUE_DEPTH_MAX { Err(Error::TooDeep { limit: VALUE_DEPTH_MAX }) } else { Ok(()) }
}

/// Writes values as text of at most `limit` bytes.
pub(crate) struct ValueWriter<'a> {
    /// The message that the spans point into.
    pub(crate) base: &'a [u8],
    pub(crate) into: Vec<u8>,
    pub(crate) limit: u64,
}

impl ValueWriter<'_> {
    /// Writes a top-level value: text without quotes, nothing for an empty value.
    pub(crate) fn plain(&mut self, value: Value<'_>) -> Result<(), Error> {
        match value {
            Value::Empty => {}
            Value::Text(span) => self.into.extend_from_slice(span.of(self.base)),
            Value::Double(number) => write_double(number, &mut self.into),
            Value::Bytes(span) => write_base64(span.of(self.base), &mut self.into),
            Value::Bool(_) | Value::Int(_) | Value::List(_) | Value::Map(_) => self.json(value, 1)?,
        }
        self.check()
    }

    fn check(&self) -> Result<(), Error> {
        if self.into.len() as u64 > self.limit {
            return Err(Error::DecompressedTooLarge { limit: self.limit });
        }
        Ok(())
    }

    fn json(&mut self, value: Value<'_>, depth: u32) -> Result<(), Error> {
        check_depth(depth)?;
        match value {
            Value::Empty => self.into.extend_from_slice(b"null"),
            Value::Text(span) => self.json_text(span.of(self.base)),
            Value::Bool(truth) => self.into.extend_from_slice(if truth { b"true" } else { b"false" }),
            Value::Int(number) => {
                let _ = write!(self.into, "{number}");
            }
            Value::Double(number) if !number.is_finite() => self.into.extend_from_slice(b"null"),
            Value::Double(number) => write_double(number, &mut self.into),
            Value::List(list) => self.json_list(list, depth)?,
            Value::Map(map) => self.json_map(map, depth)?,
            Value::Bytes(span) => {
                self.into.push(b'"');
                write_base64(span.of(self.base), &mut self.into);
                self.into.push(b'"');
            }
        }
        self.check()
    }

    fn json_list(&mut self, mut list: Reader<'_>, depth: u32) -> Result<(), Error> {
        self.into.push(b'[');
        let mut first = true;
        while let Some(field) = list.key()? {
            if field != (1, Wire::Bytes) {
                list.skip(field.1)?;
                continue;
            }
            if !std::mem::take(&mut first) {
                self.into.push(b',');
            }
            self.json(any_value(list.message()?)?, depth + 1)?;
        }
        self.into.push(b']');
        Ok(())
    }

    /// Keys are sorted, and of equal keys the last one counts, as when Go encodes a map.
    fn json_map(&mut self, mut map: Reader<'_>, depth: u32) -> Result<(), Error> {
        let mut pairs = Vec::new();
        while let Some(field) = map.key()? {
            match field {
                (1, Wire::Bytes) => pairs.push(key_value(map.message()?)?),
                (_, wire) => map.skip(wire)?,
            }
        }
        let base = self.base;
        pairs.sort_by(|a, b| a.0.of(base).cmp(b.0.of(base)));
        self.into.push(b'{');
        let mut separator: &[u8] = b"";
        for (n, (key, value)) in pairs.iter().enumerate() {
            if pairs.get(n + 1).is_some_and(|next| next.0.of(base) == key.of(base)) {
                continue;
            }
            self.into.extend_from_slice(separator);
            self.json_text(key.of(base));
            self.into.push(b':');
            self.json(*value, depth + 1)?;
            separator = b",";
        }
        self.into.push(b'}');
        Ok(())
    }

    fn json_text(&mut self, text: &[u8]) {
        self.into.push(b'"');
        for chunk in text.utf8_chunks() {
            for c in chunk.valid().chars() {
                self.json_char(c);
            }
            if !chunk.invalid().is_empty() {
                self.into.extend_from_slice(b"\\ufffd");
            }
        }
        self.into.push(b'"');
    }

    fn json_char(&mut self, c: char) {
        let short = match c {
            '"' | '\\' => c as u8,
            '\n' => b'n',
            '\r' => b'r',
            '\t' => b't',
            '\u{8}' => b'b',
            '\u{c}' => b'f',
            '\0'..='\x1f' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(self.into, "\\u{:04x}", c as u32);
                return;
            }
            _ => {
                self.into.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return;
            }
        };
        self.into.extend_from_slice(&[b'\\', short]);
    }
}

/// Writes a number as JavaScript does: with an exponent only below 1e-6 and from 1e21 on.
fn write_double(number: f64, into: &mut Vec<u8>) {
    let size = number.abs();
    let _ = if number.is_nan() {
        write!(into, "NaN")
    } else if number.is_infinite() {
        write!(into, "{}Infinity", if number < 0.0 { "-" } else { "" })
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        write!(into, "{}", if size < 1.0 { text } else { text.replace('e', "e+") })
    } else {
        write!(into, "{number}")
    };
}

fn write_base64(bytes: &[u8], into: &mut Vec<u8>) {
    let start = into.len();
    into.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The buffer has exactly the needed length, and a short buffer is the only cause of an encoding
    // error.
    let written = STANDARD.encode_slice(bytes, &mut into[start..]).unwrap_or(0);
    into.truncate(start + written);
}

/// Writes bytes in lower-case hexadecimal.
pub(crate) fn write_hex(bytes: &[u8], into: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in bytes {
        into.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_javascript_does() {
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e21, "1.5e+21"),
            (1e20, "100000000000000000000"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            let mut into = Vec::new();
            write_double(number, &mut into);
            assert_eq!(String::from_utf8(into).unwrap(), text);
        }
    }

    #[test]
    fn bytes_become_base64_and_hex() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            let mut into = Vec::new();
            write_base64(bytes.as_bytes(), &mut into);
            assert_eq!(String::from_utf8(into).unwrap(), text);
        }
        let mut into = Vec::new();
        write_hex(&[0, 0xAB, 0xFF], &mut into);
        assert_eq!(into, b"00abff");
    }

    #[test]
    fn text_is_escaped_as_go_does() {
        let mut writer = ValueWriter { base: b"", into: Vec::new(), limit: 1000 };
        writer.json_text("<a>&\"\\\n\r\t\u{8}\u{c}\u{1}\u{2028}ä".as_bytes());
        writer.json_text(b"\xff!");
        let text = String::from_utf8(writer.into).unwrap();
        assert_eq!(text, "\"<a>&\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u2028ä\"\"\\ufffd!\"");
    }
}
