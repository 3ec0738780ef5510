//! Translates the strings and the structured metadata of Loki's JSON forms to protobuf fields.

use std::fmt;

use sandur_protobuf::Writer as _;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};

use crate::metered_writer::MeteredWriter;

/// Implements `DeserializeSeed` for one kind of JSON value.
macro_rules! seed {
    ($name:ident, $method:ident) => {
        impl<'de> DeserializeSeed<'de> for $name<'_> {
            type Value = ();
            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
                from.$method(self)
            }
        }
    };
}

pub(crate) use seed;

/// Writes a string as a field of type `string`.
pub(crate) struct Text<'w>(pub(crate) &'w mut MeteredWriter, pub(crate) u32);
seed!(Text, deserialize_bytes);

impl<'de> Visitor<'de> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, text: &[u8]) -> Result<(), E> {
        self.0.bytes(self.1, text);
        Ok(())
    }
}

/// Writes an object of structured metadata as pairs.
pub(crate) struct Metadata<'w>(pub(crate) &'w mut MeteredWriter);
seed!(Metadata, deserialize_map);

impl<'de> Visitor<'de> for Metadata<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of structured metadata with strings as values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        loop {
            let open = self.0.open(3);
            let more = map.next_key_seed(Text(&mut *self.0, 1))?.is_some();
            if !more {
                self.0.abandon(open);
                return Ok(());
            }
            map.next_value_seed(Text(&mut *self.0, 2))?;
            self.0.close(open);
        }
    }
}
