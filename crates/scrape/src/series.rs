//! What a loop remembers of the series of its target, from the text that names them to their labels.
//!
//! A series that the last scrape had and this one has not is over: it gets a stale marker. One that came with
//! times of its own does not, unless the job wants it, because nobody knows when it ended.

use std::collections::HashMap;
use std::sync::Arc;

use sandur_model::{Labels, MetricMetadata, StreamId};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes of an entry beside its labels, and of the marker that ends it.
const ENTRY_BYTES: u64 = 288;
/// Bytes of a label beside its text.
const LABEL_BYTES: u64 = 64;
/// Scrapes after which a series that is gone is forgotten.
const FORGOTTEN_AFTER: u64 = 3;
/// Scrapes after which descriptions of metrics are stored again, though they are the same.
const TOLD_AGAIN_AFTER: u64 = 240;

/// A series, or a text that a rule leaves out.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// None when a rule leaves it out.
    pub(crate) series: Option<(StreamId, Arc<Labels>)>,
    /// The scrape that had it last, from 1.
    pub(crate) seen: u64,
    /// Whether its end is told by a stale marker.
    pub(crate) ends_with_marker: bool,
}

/// The series of a target.
#[derive(Default)]
pub(crate) struct SeriesMemory {
    by_text: HashMap<u128, Known>,
    bytes: u64,
    /// The scrape that is being read, from 1.
    pub(crate) scrape: u64,
    /// A hash of the descriptions of metrics that were stored last, and the scrape that had them.
    told: Option<(u64, u64)>,
}

impl SeriesMemory {
    /// What a text means, if that is known.
    pub(crate) fn get(&mut self, text: &str) -> Option<&mut Known> {
        self.by_text.get_mut(&xxh3_128(text.as_bytes()))
    }

    /// Remembers what a text means.
    pub(crate) fn insert(&mut self, text: &str, labels: Option<Labels>) -> &mut Known {
        let series = labels.map(|labels| (labels.stream_id(), Arc::new(labels)));
        self.bytes += bytes_of(series.as_ref());
        let known = Known { series, seen: 0, ends_with_marker: false };
        self.by_text.entry(xxh3_128(text.as_bytes())).insert_entry(known).into_mut()
    }

    /// Bytes of all that is remembered.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The series that the scrape before had and this one has not.
    pub(crate) fn vanished(&self) -> impl Iterator<Item = &(StreamId, Arc<Labels>)> {
        let scrape = self.scrape;
        let gone =
            self.by_text.values().filter(move |known| known.ends_with_marker && known.seen + 1 == scrape);
        gone.filter_map(|known| known.series.as_ref())
    }

    /// The series that this scrape has.
    pub(crate) fn present(&self) -> impl Iterator<Item = &(StreamId, Arc<Labels>)> {
        let scrape = self.scrape;
        let there = self.by_text.values().filter(move |known| known.ends_with_marker && known.seen == scrape);
        there.filter_map(|known| known.series.as_ref())
    }

    /// Forgets what is gone for a while.
    pub(crate) fn forget(&mut self) {
        let scrape = self.scrape;
        let bytes = &mut self.bytes;
        self.by_text.retain(|_, known| {
            let keep = known.seen + FORGOTTEN_AFTER > scrape;
            if !keep {
                *bytes -= bytes_of(known.series.as_ref());
            }
            keep
        });
    }

    /// Whether these descriptions of metrics have to be stored: they are new, or were stored long ago.
    pub(crate) fn tell(&mut self, metadata: &[MetricMetadata]) -> bool {
        let mut hasher = Xxh3::new();
        for one in metadata {
            for text in [&one.family, &one.unit, &one.help] {
                hasher.update(text.as_bytes());
                hasher.update(&[0xFF, one.kind.number()]);
            }
        }
        let hash = hasher.digest();
        let known = self.told.is_some_and(|(told, at)| told == hash && self.scrape - at < TOLD_AGAIN_AFTER);
        if !known {
            self.told = Some((hash, self.scrape));
        }
        !known
    }

    /// What was to be stored was not.
    pub(crate) fn untell(&mut self) {
        self.told = None;
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self { scrape: self.scrape, ..Self::default() };
    }
}

fn bytes_of(series: Option<&(StreamId, Arc<Labels>)>) -> u64 {
    let labels =
        series.map_or(0, |(_, labels)| labels.text_bytes() as u64 + labels.len() as u64 * LABEL_BYTES);
    ENTRY_BYTES + labels
}
