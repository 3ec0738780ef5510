//! A cache per thread from the bytes that name a stream to its labels and id.
//!
//! Agents send the same streams in every request, so parsing, service-name discovery and hashing are done
//! once. The cache belongs to the thread, so it needs no lock. It has two generations of at most
//! [`GENERATION_BYTES_MAX`] each. When the young generation is full it becomes the old one; an entry that
//! is found in the old one moves to the young one. A hit compares the bytes, so it is never wrong.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt};
use sandur_model::{Labels, Limits, StreamId};

use crate::level::{LabelLevel, label_level};
use crate::service_name::has_service_name;

/// Bytes of names and labels in one generation of one thread.
const GENERATION_BYTES_MAX: usize = 4 << 20;
/// Names longer than this are not kept.
const NAME_BYTES_MAX: usize = 4 << 10;
/// Bytes of memory of an entry in addition to its name and labels.
const ENTRY_OVERHEAD: usize = 160;

/// A stream with the properties of its labels that the checks of every entry use.
#[derive(Clone, Debug)]
pub(crate) struct KnownStream {
    pub(crate) labels: Arc<Labels>,
    pub(crate) id: StreamId,
    pub(crate) level: LabelLevel,
    pub(crate) longest_name: u32,
    pub(crate) longest_value: u32,
    pub(crate) has_service_name: bool,
}

impl KnownStream {
    /// Returns the stream of a label set.
    pub(crate) fn new(labels: Labels) -> Self {
        let longest_name = labels.iter().map(|(name, _)| name.len()).max().unwrap_or(0) as u32;
        let longest_value = labels.iter().map(|(_, value)| value.len()).max().unwrap_or(0) as u32;
        Self {
            id: labels.stream_id(),
            level: label_level(&labels),
            longest_name,
            longest_value,
            has_service_name: has_service_name(&labels),
            labels: Arc::new(labels),
        }
    }
}

/// The form of the bytes; part of the key, because the same bytes may mean different labels.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Naming {
    /// `{name="value"}`.
    LabelText,
    /// An OTLP resource in protobuf.
    Resource,
}

/// How bytes become labels: their form, and a hash of the settings that affect the labels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    naming: Naming,
    settings: u64,
}

impl Rules {
    /// Returns the rules of a tenant.
    pub(crate) fn new(naming: Naming, limits: &Limits) -> Self {
        Self {
            naming,
            settings: CACHE.with_borrow(|cache| cache.hasher.hash_one(&limits.discover_service_name)),
        }
    }
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

/// Returns the stream that `name` denotes. Calls `parse` when this thread does not have it.
pub(crate) fn stream_of<E>(
    rules: Rules,
    name: &[u8],
    parse: impl FnOnce() -> Result<Labels, E>,
) -> Result<KnownStream, E> {
    if let Some(known) = CACHE.with_borrow_mut(|cache| cache.get(rules, name)) {
        return Ok(known);
    }
    let stream = KnownStream::new(parse()?);
    CACHE.with_borrow_mut(|cache| cache.insert(rules, name, &stream));
    Ok(stream)
}

#[derive(Default)]
struct Cache {
    hasher: RandomState,
    young: Generation,
    old: Generation,
}

#[derive(Default)]
struct Generation {
    /// By a hash of rules and name. If two names have the same hash, the later one is kept.
    streams: HashMap<u64, Cached>,
    bytes: usize,
}

struct Cached {
    rules: Rules,
    name: Box<[u8]>,
    stream: KnownStream,
}

impl Cached {
    fn is(&self, rules: Rules, name: &[u8]) -> bool {
        self.rules == rules && *self.name == *name
    }

    fn bytes(&self) -> usize {
        let labels = self.stream.labels.text_bytes() + self.stream.labels.len() * 64;
        self.name.len() + labels + ENTRY_OVERHEAD
    }
}

impl Cache {
    fn key(&self, rules: Rules, name: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        rules.naming.hash(&mut hasher);
        hasher.write_u64(rules.settings);
        hasher.write(name);
        hasher.finish()
    }

    fn get(&mut self, rules: Rules, name: &[u8]) -> Option<KnownStream> {
        let key = self.key(rules, name);
        if let Some(cached) = self.young.streams.get(&key)
            && cached.is(rules, name)
        {
            return Some(cached.stream.clone());
        }
        let cached = self.old.streams.remove(&key)?;
        if !cached.is(rules, name) {
            return None;
        }
        let stream = cached.stream.clone();
        self.keep(key, cached);
        Some(stream)
    }

    fn insert(&mut self, rules: Rules, name: &[u8], stream: &KnownStream) {
        if name.len() <= NAME_BYTES_MAX {
            let key = self.key(rules, name);
            self.keep(key, Cached { rules, name: name.into(), stream: stream.clone() });
        }
    }

    fn keep(&mut self, key: u64, cached: Cached) {
        self.young.bytes += cached.bytes();
        if let Some(replaced) = self.young.streams.insert(key, cached) {
            self.young.bytes -= replaced.bytes();
        }
        if self.young.bytes > GENERATION_BYTES_MAX {
            self.old = std::mem::replace(&mut self.young, Generation { streams: HashMap::new(), bytes: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(naming: Naming) -> Rules {
        Rules { naming, settings: 0 }
    }

    #[test]
    fn a_stream_name_is_parsed_once() {
        let parse = || Labels::parse(r#"{app="a"}"#);
        let first = stream_of(rules(Naming::LabelText), b"name one", parse).unwrap();
        let again = stream_of(rules(Naming::LabelText), b"name one", || -> Result<_, ()> { unreachable!() });
        assert!(Arc::ptr_eq(&first.labels, &again.unwrap().labels));
        let other =
            stream_of(rules(Naming::Resource), b"name one", || Labels::parse(r#"{app="b"}"#)).unwrap();
        assert_ne!(first.id, other.id);
        let failed = stream_of(rules(Naming::LabelText), b"bad", || Labels::parse("{"));
        assert!(failed.is_err());
    }

    #[test]
    fn the_settings_are_part_of_the_key() {
        let with = Limits { discover_service_name: vec!["app".to_owned()], ..Limits::default() };
        let one = Rules::new(Naming::LabelText, &with);
        assert!(one == Rules::new(Naming::LabelText, &with));
        assert!(one != Rules::new(Naming::LabelText, &Limits::default()));
    }

    #[test]
    fn memory_is_bounded_and_used_streams_stay() {
        let mut cache = Cache::default();
        let rules = rules(Naming::LabelText);
        let stream = KnownStream::new(Labels::parse(r#"{app="a"}"#).unwrap());
        for n in 0..100_000u32 {
            cache.insert(rules, &n.to_le_bytes(), &stream);
            assert!(cache.get(rules, &0u32.to_le_bytes()).is_some());
            assert!(cache.young.bytes <= GENERATION_BYTES_MAX);
        }
        assert!(cache.old.bytes <= GENERATION_BYTES_MAX + NAME_BYTES_MAX + 1000);
        let counted: usize = cache.young.streams.values().map(Cached::bytes).sum();
        assert_eq!(cache.young.bytes, counted);
        cache.insert(rules, &[0; NAME_BYTES_MAX + 1], &stream);
        assert!(cache.get(rules, &[0; NAME_BYTES_MAX + 1]).is_none());
    }
}
