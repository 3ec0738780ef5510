//! Translates OTLP in JSON to its protobuf form in one pass, with the field tables of logs.
//!
//! OTLP/JSON is protobuf's JSON mapping with three differences: trace and span ids are hexadecimal,
//! enumerations are numbers, and names are in lower camel case (snake case is read too, as by the
//! collector). 64-bit numbers are strings or numbers. Unknown members are skipped. The tables below map
//! names to fields; the JSON reader bounds nesting.
//!
//! **Invariant.** A body that has unknown members where records are expected, and no record, is an error.

use std::borrow::Cow;
use std::fmt;

use sandur_protobuf::{Writer as _, zigzag};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};

use crate::error::Error;
use crate::limits_check::VALUE_DEPTH_MAX;
use crate::loki_json::{malformed, shown};
use crate::memory::DecoderMemory;
use crate::metered_writer::MeteredWriter;

/// Returns the protobuf form of a JSON request.
pub(crate) fn translate(body: &[u8], memory: &DecoderMemory) -> Result<Vec<u8>, Error> {
    translate_as(&REQUEST, body, memory)
}

/// Returns the protobuf form of a JSON message with these fields.
pub(crate) fn translate_as(
    fields: &'static [Field],
    body: &[u8],
    memory: &DecoderMemory,
) -> Result<Vec<u8>, Error> {
    let writer = MeteredWriter::with_capacity(body.len(), memory)?;
    let mut out = Translation { writer, records: 0, unknown: None };
    let mut json = serde_json::Deserializer::from_slice(body);
    let message = MessageSeed { out: &mut out, fields };
    message.deserialize(&mut json).and_then(|()| json.end()).map_err(|error| {
        if error.to_string().starts_with("recursion limit exceeded") {
            return Error::TooDeep { limit: VALUE_DEPTH_MAX };
        }
        malformed(body, &error)
    })?;
    match out.unknown.filter(|_| out.records == 0) {
        Some(unknown) => Err(Error::malformed("JSON", 0, unknown)),
        None => out.writer.into_bytes(),
    }
}

/// The state of one translation.
struct Translation {
    writer: MeteredWriter,
    /// Records so far: log records or data points.
    records: u64,
    /// The message about the first unknown member at a place where records are expected.
    unknown: Option<String>,
}

/// A field of a message: its name in camel and in snake case, its number, its kind.
pub(crate) struct Field(pub(crate) &'static str, pub(crate) &'static str, pub(crate) u32, pub(crate) Kind);

/// The encoding of a field.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Message(&'static [Field]),
    /// Records, or messages that contain records.
    Records(&'static [Field]),
    Text,
    Integer,
    Fixed64,
    SignedFixed64,
    Zigzag,
    Fixed32,
    Bool,
    Double,
    Hex,
    Base64,
}

use Kind::{
    Base64, Bool, Double, Fixed32, Fixed64, Hex, Integer, Message, Records, SignedFixed64, Text, Zigzag,
};

static REQUEST: [Field; 1] = [Field("resourceLogs", "resource_logs", 1, Records(&RESOURCE_LOGS))];
static RESOURCE_LOGS: [Field; 2] = [
    Field("resource", "resource", 1, Message(&RESOURCE)),
    Field("scopeLogs", "scope_logs", 2, Records(&SCOPE_LOGS)),
];
pub(crate) static RESOURCE: [Field; 1] = [Field("attributes", "attributes", 1, Message(&KEY_VALUE))];
static SCOPE_LOGS: [Field; 2] = [
    Field("scope", "scope", 1, Message(&SCOPE)),
    Field("logRecords", "log_records", 2, Records(&LOG_RECORD)),
];
pub(crate) static SCOPE: [Field; 4] = [
    Field("name", "name", 1, Text),
    Field("version", "version", 2, Text),
    Field("attributes", "attributes", 3, Message(&KEY_VALUE)),
    Field("droppedAttributesCount", "dropped_attributes_count", 4, Integer),
];
static LOG_RECORD: [Field; 11] = [
    Field("timeUnixNano", "time_unix_nano", 1, Fixed64),
    Field("severityNumber", "severity_number", 2, Integer),
    Field("severityText", "severity_text", 3, Text),
    Field("body", "body", 5, Message(&ANY_VALUE)),
    Field("attributes", "attributes", 6, Message(&KEY_VALUE)),
    Field("droppedAttributesCount", "dropped_attributes_count", 7, Integer),
    Field("flags", "flags", 8, Fixed32),
    Field("traceId", "trace_id", 9, Hex),
    Field("spanId", "span_id", 10, Hex),
    Field("observedTimeUnixNano", "observed_time_unix_nano", 11, Fixed64),
    Field("eventName", "event_name", 12, Text),
];
pub(crate) static KEY_VALUE: [Field; 2] =
    [Field("key", "key", 1, Text), Field("value", "value", 2, Message(&ANY_VALUE))];
static ANY_VALUE: [Field; 7] = [
    Field("stringValue", "string_value", 1, Text),
    Field("boolValue", "bool_value", 2, Bool),
    Field("intValue", "int_value", 3, Integer),
    Field("doubleValue", "double_value", 4, Double),
    Field("arrayValue", "array_value", 5, Message(&LIST)),
    Field("kvlistValue", "kvlist_value", 6, Message(&MAP)),
    Field("bytesValue", "bytes_value", 7, Base64),
];
static LIST: [Field; 1] = [Field("values", "values", 1, Message(&ANY_VALUE))];
static MAP: [Field; 1] = [Field("values", "values", 1, Message(&KEY_VALUE))];

/// Writes a JSON object as the fields of a message.
struct MessageSeed<'w> {
    out: &'w mut Translation,
    fields: &'static [Field],
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MessageSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with \"{}\"", self.fields[0].0)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let field = self.fields.iter().find(|field| field.0 == name || field.1 == name);
            match field {
                Some(field) => map.next_value_seed(FieldSeed { out: self.out, field })?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                    self.note_unknown(&name);
                }
            }
        }
        Ok(())
    }
}

impl MessageSeed<'_> {
    /// Records the message about an unknown member, if records are expected in this message.
    fn note_unknown(&mut self, name: &str) {
        let Some(expected) = records_of(self.fields).filter(|_| self.out.unknown.is_none()) else { return };
        let shown = shown(name);
        self.out.unknown = Some(format!(
            "'{shown}' stands where \"{expected}\" is expected, and nothing else holds records"
        ));
    }
}

/// Returns the name of the member that holds the records of a message.
fn records_of(fields: &'static [Field]) -> Option<&'static str> {
    fields.iter().find(|field| matches!(field.3, Records(_))).map(|field| field.0)
}

/// Writes a JSON value as one field, or a list as a repeated field.
struct FieldSeed<'w> {
    out: &'w mut Translation,
    field: &'static Field,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        match self.field.3 {
            // text may hold bytes that are not UTF-8, and may be `null`
            Text => from.deserialize_option(self),
            _ => from.deserialize_any(self),
        }
    }
}

impl FieldSeed<'_> {
    fn number(&mut self, value: u64) {
        let field = self.field.2;
        match self.field.3 {
            Fixed64 | SignedFixed64 => self.out.writer.fixed64(field, value),
            Zigzag => self.out.writer.varint(field, zigzag(value as i64)),
            Fixed32 => self.out.writer.fixed32(field, value as u32),
            Double => self.out.writer.fixed64(field, (value as f64).to_bits()),
            _ => self.out.writer.varint(field, value),
        }
    }

    fn takes_numbers(&self) -> bool {
        matches!(self.field.3, Integer | Fixed64 | SignedFixed64 | Zigzag | Fixed32 | Double)
    }

    fn text(&mut self, text: &str) -> Option<()> {
        let field = self.field.2;
        match self.field.3 {
            Double => self.out.writer.fixed64(field, text.parse::<f64>().ok()?.to_bits()),
            Integer | Fixed64 | SignedFixed64 | Zigzag | Fixed32 => {
                let unsigned = text.parse::<u64>().ok();
                self.number(unsigned.or_else(|| Some(text.parse::<i64>().ok()? as u64))?);
            }
            Hex => self.out.writer.bytes(field, &from_hex(text)?),
            Base64 => self.out.writer.bytes(field, &from_base64(text)?),
            Message(_) | Records(_) | Text | Bool => return None,
        }
        Some(())
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.field.3 {
            Message(_) | Records(_) => "an object or a list of objects",
            Text => "a string",
            Integer | Fixed64 | SignedFixed64 | Zigzag | Fixed32 => "a whole number, as such or in a string",
            Bool => "true or false",
            Double => "a number",
            Hex => "a string of hexadecimal digits",
            Base64 => "a string in base64",
        };
        write!(f, "{kind} for \"{}\"", self.field.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let (Message(fields) | Records(fields)) = self.field.3 else {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        };
        let is_record = matches!(self.field.3, Records(_)) && records_of(fields).is_none();
        self.out.records += u64::from(is_record);
        let open = self.out.writer.open(self.field.2);
        MessageSeed { out: &mut *self.out, fields }.visit_map(map)?;
        self.out.writer.close(open);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if !matches!(self.field.3, Message(_) | Records(_)) && !self.takes_numbers() {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        while list.next_element_seed(FieldSeed { out: &mut *self.out, field: self.field })?.is_some() {}
        Ok(())
    }

    fn visit_bytes<E>(self, text: &[u8]) -> Result<(), E> {
        self.out.writer.bytes(self.field.2, text);
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<(), E> {
        self.text(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        if !matches!(self.field.3, Bool) {
            return Err(E::invalid_type(Unexpected::Bool(value), &self));
        }
        self.out.writer.varint(self.field.2, u64::from(value));
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(mut self, value: u64) -> Result<(), E> {
        if !self.takes_numbers() {
            return Err(E::invalid_type(Unexpected::Unsigned(value), &self));
        }
        self.number(value);
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(mut self, value: i64) -> Result<(), E> {
        match self.field.3 {
            Double => self.visit_f64(value as f64),
            Integer | SignedFixed64 | Zigzag => {
                self.number(value as u64);
                Ok(())
            }
            _ => Err(E::invalid_type(Unexpected::Signed(value), &self)),
        }
    }

    fn visit_f64<E: serde::de::Error>(mut self, value: f64) -> Result<(), E> {
        let whole = value.fract() == 0.0 && value.abs() < 2f64.powi(63);
        match self.field.3 {
            Double => self.out.writer.fixed64(self.field.2, value.to_bits()),
            // Some clients write a time as 1.7e18.
            Integer | Fixed64 | SignedFixed64 | Zigzag if whole => self.number(value as i64 as u64),
            _ => return Err(E::invalid_type(Unexpected::Float(value), &self)),
        }
        Ok(())
    }

    /// `null` means that the field is absent.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_bytes(self)
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// Decodes the standard or the URL-safe alphabet, padded or not.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for four in text.chunks(4) {
        let mut bits = 0u32;
        for &digit in four {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' | b'-' => 62,
                b'/' | b'_' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        let whole = (bits << (6 * (4 - four.len()))).to_be_bytes();
        match four.len() {
            1 => return None,
            digits => bytes.extend_from_slice(&whole[1..digits]),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_and_base64_are_decoded() {
        assert_eq!(from_hex("00aBff"), Some(vec![0, 0xAB, 0xFF]));
        assert_eq!((from_hex("0"), from_hex("zz")), (None, None));
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8", "fo"), ("Zm9v", "foo"), ("Zm9vYg==", "foob")] {
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(from_base64("-_+/"), Some(vec![0xFB, 0xFF, 0xBF]));
        assert_eq!((from_base64("A"), from_base64("a b=")), (None, None));
    }
}
