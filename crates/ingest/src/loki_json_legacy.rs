//! Translates the entries of a stream in Loki's JSON form from before version 1 to protobuf.
//!
//! `{"labels":"{name=\"value\"}","entries":[{"ts":"<RFC
//! 3339>","line":"line","structuredMetadata":{"name": "value"}}]}`. Case in member names is ignored, as
//! in Loki's reader of this form.
//!
//! **Invariant.** An entry without a time or without a line is an error, so that a misspelt member does
//! not become an empty line.

use std::borrow::Cow;
use std::fmt;

use sandur_model::Rfc3339;
use sandur_protobuf::Writer as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::loki_json_fields::{Metadata, Text, seed};
use crate::metered_writer::MeteredWriter;

/// The list of entries of a stream.
pub(crate) struct LegacyEntries<'w>(pub(crate) &'w mut MeteredWriter);
seed!(LegacyEntries, deserialize_option);

impl<'de> Visitor<'de> for LegacyEntries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries")
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Entry(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }
}

struct Entry<'w>(&'w mut MeteredWriter);
seed!(Entry, deserialize_map);

impl<'de> Visitor<'de> for Entry<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"an entry {"ts": "<RFC 3339>", "line": "<line>"}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let open = self.0.open(2);
        let (mut has_time, mut has_line) = (false, false);
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if name.eq_ignore_ascii_case("ts") {
                map.next_value_seed(Time(&mut *self.0))?;
                has_time = true;
            } else if name.eq_ignore_ascii_case("line") {
                map.next_value_seed(Text(&mut *self.0, 2))?;
                has_line = true;
            } else if name.eq_ignore_ascii_case("structuredMetadata") {
                map.next_value_seed(OptionalMetadata(&mut *self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        self.0.close(open);
        match (has_time, has_line) {
            (true, true) => Ok(()),
            (false, _) => Err(A::Error::custom(r#"an entry needs "ts", a time in RFC 3339"#)),
            (true, false) => Err(A::Error::custom(r#"an entry needs "line", a string"#)),
        }
    }
}

struct Time<'w>(&'w mut MeteredWriter);
seed!(Time, deserialize_str);

impl<'de> Visitor<'de> for Time<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time in RFC 3339")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let time = Rfc3339::parse(text);
        let time = time.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))?;
        let open = self.0.open(1);
        self.0.varint(1, time.seconds as u64);
        self.0.varint(2, time.nanoseconds.into());
        self.0.close(open);
        Ok(())
    }
}

/// Structured metadata, which may be `null`.
struct OptionalMetadata<'w>(&'w mut MeteredWriter);
seed!(OptionalMetadata, deserialize_option);

impl<'de> Visitor<'de> for OptionalMetadata<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of structured metadata with strings as values")
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        Metadata(self.0).deserialize(from)
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }
}
