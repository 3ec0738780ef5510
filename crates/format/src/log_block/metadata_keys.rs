//! The streams of a block that have rows with a structured-metadata key.
//!
//! Layout: form (u8) 0: unknown, every stream may have every key; 1: number of keys (LEB128), then by
//! ascending key: key (text), set of streams (blob; see postings). The list is exact or absent: a block
//! with more than [`KEYS_MAX`] keys or more than [`BYTES_MAX`] bytes of list is written with form 0.
//!
//! Counts in the footer are by stream and level of rows. With this list they also answer queries that
//! group by a label that no counted row has.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

use crate::block::postings::{get_set, put_set};
use crate::codec::reader::Reader;
use crate::codec::varint::{put_blob, put_varint};
use crate::error::Error;

const UNKNOWN: u8 = 0;
const LIST: u8 = 1;

/// Most keys in the list: only clients that put data into keys exceed it.
const KEYS_MAX: usize = 1_024;
/// Most plain bytes of the list; the footer is read and decoded for every query.
const BYTES_MAX: usize = 1 << 20;

/// The list of a footer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataKeys {
    /// Sorted by key; `None` when the keys are unknown.
    sets: Option<Vec<(Box<str>, RoaringBitmap)>>,
}

/// The streams that may have rows with a key.
#[derive(Clone, Copy, Debug)]
pub enum Carriers<'a> {
    /// Unknown: every stream may have some.
    Unknown,
    /// No stream has any.
    NoStream,
    /// Exactly these streams have some.
    Streams(&'a RoaringBitmap),
}

impl Carriers<'_> {
    /// Whether rows of the stream may have the key.
    pub fn may_include(&self, stream: u32) -> bool {
        match self {
            Self::Unknown => true,
            Self::NoStream => false,
            Self::Streams(set) => set.contains(stream),
        }
    }
}

impl MetadataKeys {
    /// Returns the streams that may have rows with `key`.
    pub fn carriers(&self, key: &str) -> Carriers<'_> {
        let Some(sets) = &self.sets else { return Carriers::Unknown };
        match sets.binary_search_by(|(known, _)| (**known).cmp(key)) {
            Ok(at) => Carriers::Streams(&sets[at].1),
            Err(_) => Carriers::NoStream,
        }
    }

    /// Returns the keys with the number of streams that have each; `None` when the keys are unknown.
    pub fn known(&self) -> Option<impl Iterator<Item = (&str, u64)>> {
        self.sets.as_ref().map(|sets| sets.iter().map(|(key, set)| (&**key, set.len())))
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let of = |(key, set): &(Box<str>, RoaringBitmap)| key.len() + 64 + set.serialized_size();
        self.sets.iter().flatten().map(of).sum::<usize>() as u64
    }

    pub(crate) fn get(bytes: &[u8], offset: u64, streams: u32) -> Result<Self, Error> {
        let mut reader = Reader::new(crate::block::PART_FOOTER, offset, bytes);
        let sets = match reader.u8()? {
            UNKNOWN => None,
            LIST => {
                let count = reader.count("metadata keys of a block", KEYS_MAX)?;
                let mut sets: Vec<(Box<str>, RoaringBitmap)> =
                    Vec::with_capacity(count.min(reader.remaining()));
                for _ in 0..count {
                    let key: Box<str> = reader.text()?.into();
                    if sets.last().is_some_and(|(before, _)| *before >= key) {
                        return Err(reader.malformed("metadata keys are not sorted"));
                    }
                    let at = reader.offset();
                    sets.push((key, get_set(reader.blob()?, at, streams)?));
                }
                Some(sets)
            }
            _ => return Err(reader.malformed("an unknown form of the list of metadata keys")),
        };
        reader.finish()?;
        Ok(Self { sets })
    }
}

/// Collects the keys of a block that is being written.
#[derive(Default)]
pub(crate) struct KeyCollector {
    sets: BTreeMap<Box<str>, RoaringBitmap>,
    too_many: bool,
}

impl KeyCollector {
    /// Records that rows of these streams have the key.
    pub(crate) fn note(&mut self, key: &str, streams: impl IntoIterator<Item = u32>) {
        if self.too_many {
            return;
        }
        if let Some(set) = self.sets.get_mut(key) {
            set.extend(streams);
            return;
        }
        let set = RoaringBitmap::from_iter(streams);
        if !set.is_empty() {
            self.sets.insert(key.into(), set);
        }
        if self.sets.len() > KEYS_MAX {
            self.sets.clear();
            self.too_many = true;
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.sets.iter().map(|(key, set)| (key.len() + 96 + set.serialized_size()) as u64).sum()
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if !self.too_many {
            out.push(LIST);
            put_varint(out, self.sets.len() as u64);
            let mut stored = Vec::new();
            for (key, set) in &self.sets {
                put_blob(out, key.as_bytes());
                stored.clear();
                let mut set = set.clone();
                set.optimize();
                put_set(&mut stored, &set);
                put_blob(out, &stored);
            }
        }
        if self.too_many || out.len() - start > BYTES_MAX {
            out.truncate(start);
            out.push(UNKNOWN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(collector: &KeyCollector, streams: u32) -> MetadataKeys {
        let mut out = Vec::new();
        collector.put(&mut out);
        MetadataKeys::get(&out, 0, streams).unwrap()
    }

    #[test]
    fn streams_are_listed_by_key() {
        let mut collector = KeyCollector::default();
        collector.note("trace_id", [1]);
        collector.note("level", 0..1_000);
        collector.note("trace_id", [7]);
        collector.note("no_stream", []);
        let keys = round_trip(&collector, 1_000);
        assert_eq!(keys.known().unwrap().collect::<Vec<_>>(), [("level", 1_000), ("trace_id", 2)]);
        let has = |key, stream| keys.carriers(key).may_include(stream);
        assert!(has("trace_id", 1) && has("trace_id", 7) && !has("trace_id", 2));
        assert!(has("level", 999) && !has("no_stream", 0));
        assert!(MetadataKeys::default().carriers("any").may_include(3), "unknown is not absent");
    }

    #[test]
    fn too_many_keys_are_unknown_and_not_incomplete() {
        let mut collector = KeyCollector::default();
        (0..=KEYS_MAX).for_each(|n| collector.note(&format!("key {n}"), [0]));
        let keys = round_trip(&collector, 1);
        assert!(keys.known().is_none() && keys.carriers("absent").may_include(0));
        let mut long = KeyCollector::default();
        (0..2).for_each(|n| long.note(&format!("{n}{}", "k".repeat(BYTES_MAX / 2)), [0]));
        assert!(round_trip(&long, 1).known().is_none());
    }

    #[test]
    fn damage_is_detected() {
        let mut collector = KeyCollector::default();
        collector.note("a", [5]);
        let mut out = Vec::new();
        collector.put(&mut out);
        assert!(MetadataKeys::get(&out, 0, 6).is_ok());
        assert!(MetadataKeys::get(&out, 0, 5).is_err(), "a stream that is not there");
        assert!(MetadataKeys::get(&[2], 0, 5).is_err(), "an unknown form");
        for end in 0..out.len() {
            assert!(MetadataKeys::get(&out[..end], 0, 6).is_err());
        }
    }
}
