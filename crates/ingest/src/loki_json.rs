//! Translates Loki's push protocol in JSON to its protobuf form in one pass.
//!
//! `{"streams":[{"stream":{"name":"value"},"values":[["<ns>","line",{"name":"value"}]]}]}`. One decoder
//! with one set of checks then serves both forms. Strings may hold bytes that are not UTF-8. The shape
//! itself bounds nesting; unknown members are skipped without recursion.
//!
//! **Invariant.** A stream that has unknown members and no list of entries is an error.

use std::borrow::Cow;
use std::fmt;

use sandur_model::SECOND_NS;
use sandur_protobuf::Writer as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::error::Error;
use crate::loki_json_fields::{Metadata, Text, seed};
use crate::loki_json_legacy::LegacyEntries;
use crate::memory::DecoderMemory;
use crate::metered_writer::MeteredWriter;

/// The forms of a stream that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// The form of version 1: `stream` and `values`.
    Version1,
    /// Also the form from before version 1: `labels` and `entries`.
    Legacy,
}

/// Returns the protobuf form of a JSON request.
pub(crate) fn translate(body: &[u8], streams: Streams, memory: &DecoderMemory) -> Result<Vec<u8>, Error> {
    let mut writer = MeteredWriter::with_capacity(body.len(), memory)?;
    let mut json = serde_json::Deserializer::from_slice(body);
    Request(&mut writer, streams)
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|e| malformed(body, &e))?;
    writer.into_bytes()
}

/// Converts an error of the JSON reader, whose place becomes an offset.
pub(crate) fn malformed(body: &[u8], error: &serde_json::Error) -> Error {
    let before: usize =
        body.split_inclusive(|&b| b == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    Error::malformed("JSON", before + error.column(), what)
}

struct Request<'w>(&'w mut MeteredWriter, Streams);
seed!(Request, deserialize_map);

impl<'de> Visitor<'de> for Request<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"{"streams": [...]}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            if key == "streams" {
                map.next_value_seed(StreamList(self.0, self.1))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct StreamList<'w>(&'w mut MeteredWriter, Streams);
seed!(StreamList, deserialize_seq);

impl<'de> Visitor<'de> for StreamList<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of streams")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Stream(&mut *self.0, self.1))?.is_some() {}
        Ok(())
    }
}

struct Stream<'w>(&'w mut MeteredWriter, Streams);
seed!(Stream, deserialize_map);

impl<'de> Visitor<'de> for Stream<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a stream {"stream": {...}, "values": [...]}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let open = self.0.open(1);
        let is_legacy =
            |name: &str, legacy: &str| self.1 == Streams::Legacy && name.eq_ignore_ascii_case(legacy);
        let (mut has_entries, mut unknown) = (false, None);
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match &*name {
                "stream" => map.next_value_seed(LabelSet(self.0))?,
                "values" => {
                    map.next_value_seed(Values(self.0))?;
                    has_entries = true;
                }
                name if is_legacy(name, "labels") => map.next_value_seed(Text(&mut *self.0, 1))?,
                name if is_legacy(name, "entries") => {
                    map.next_value_seed(LegacyEntries(&mut *self.0))?;
                    has_entries = true;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    unknown.get_or_insert(name);
                }
            }
        }
        self.0.close(open);
        match unknown.filter(|_| !has_entries) {
            Some(unknown) => Err(A::Error::custom(without_entries(&unknown))),
            None => Ok(()),
        }
    }
}

/// Most bytes of an unknown member's name in an error.
const SHOWN_MAX: usize = 40;

/// Returns the beginning of the name of an unknown member, for an error.
pub(crate) fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(SHOWN_MAX)]
}

/// Returns the message for a stream that has an unknown member and no list of entries.
fn without_entries(unknown: &str) -> String {
    let shown = shown(unknown);
    let remedy = match unknown {
        "labels" | "entries" => {
            ": the format of before version 1, {\"labels\": \"{...}\", \"entries\": [...]}, is read at \
             /api/prom/push"
        }
        _ => "",
    };
    format!("a stream needs \"stream\" and \"values\", this one has '{shown}'{remedy}")
}

/// Writes labels as the text that protobuf clients send, so that both forms share the parser and the
/// cache.
struct LabelSet<'w>(&'w mut MeteredWriter);
seed!(LabelSet, deserialize_map);

impl<'de> Visitor<'de> for LabelSet<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let open = self.0.open(1);
        self.0.put(b"{");
        let mut separator: &[u8] = b"";
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            self.0.put(separator);
            self.0.put(name.as_bytes());
            self.0.put(b"=\"");
            map.next_value_seed(LabelValue(self.0))?;
            self.0.put(b"\"");
            separator = b",";
        }
        self.0.put(b"}");
        self.0.close(open);
        Ok(())
    }
}

struct LabelValue<'w>(&'w mut MeteredWriter);
seed!(LabelValue, deserialize_any);

impl<'de> Visitor<'de> for LabelValue<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a label value: a string")
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        for piece in value.as_bytes().split_inclusive(|b| matches!(b, b'"' | b'\\')) {
            match piece.split_last() {
                Some((&last @ (b'"' | b'\\'), plain)) => {
                    self.0.put(plain);
                    self.0.put(&[b'\\', last]);
                }
                _ => self.0.put(piece),
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.put(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.put(value.to_string().as_bytes());
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.put(value.to_string().as_bytes());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.put(value.to_string().as_bytes());
        Ok(())
    }

    /// `null`: the label is dropped like one with an empty value.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

struct Values<'w>(&'w mut MeteredWriter);
seed!(Values, deserialize_any);

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Entry(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

struct Entry<'w>(&'w mut MeteredWriter);
seed!(Entry, deserialize_any);

impl<'de> Visitor<'de> for Entry<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"an entry ["<nanoseconds>", "<line>", {"<metadata>": "<value>"}]"#)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let open = self.0.open(2);
        if list.next_element_seed(Timestamp(&mut *self.0))?.is_none() {
            return Err(A::Error::invalid_length(0, &self));
        }
        if list.next_element_seed(Text(&mut *self.0, 2))?.is_none() {
            return Err(A::Error::invalid_length(1, &self));
        }
        if list.next_element_seed(Metadata(&mut *self.0))?.is_some() {
            while list.next_element::<IgnoredAny>()?.is_some() {}
        }
        self.0.close(open);
        Ok(())
    }

    /// `null` in the list of entries is skipped.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

struct Timestamp<'w>(&'w mut MeteredWriter);
seed!(Timestamp, deserialize_str);

impl<'de> Visitor<'de> for Timestamp<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a timestamp: nanoseconds since the epoch as a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let invalid = |_| E::invalid_value(serde::de::Unexpected::Str(text), &self);
        let ns: i64 = text.parse().map_err(invalid)?;
        let open = self.0.open(1);
        self.0.varint(1, ns.div_euclid(SECOND_NS) as u64);
        self.0.varint(2, ns.rem_euclid(SECOND_NS) as u64);
        self.0.close(open);
        Ok(())
    }
}
