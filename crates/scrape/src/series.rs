//! Remembers the series of a target from one scrape to the next, by the text that names them.
//!
//! A series that the previous scrape had and the present one lacks has ended and gets a stale marker. A
//! series with explicit timestamps gets none unless the job requests it, because the time of its end is
//! not known.

use std::collections::HashMap;
use std::sync::Arc;

use sandur_model::{Labels, MetricMetadata, StreamId};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Bytes of an entry without its labels, including the stale marker that ends it.
const ENTRY_BYTES: u64 = 288;
/// Bytes of a label without its text.
const LABEL_BYTES: u64 = 64;
/// Number of scrapes after which a series that ended is forgotten.
const FORGOTTEN_AFTER: u64 = 3;
/// Number of scrapes after which unchanged descriptions of metrics are stored again.
const STORED_AGAIN_AFTER: u64 = 240;

/// A series, or a text that a rule drops.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// The series; `None` if a rule drops it.
    pub(crate) series: Option<(StreamId, Arc<Labels>)>,
    /// The number, from 1, of the last scrape that had it.
    pub(crate) seen: u64,
    /// Whether a stale marker is written when it ends.
    pub(crate) ends_with_marker: bool,
}

/// The series of a target.
#[derive(Default)]
pub(crate) struct SeriesMemory {
    by_text: HashMap<u128, Known>,
    bytes: u64,
    /// The number, from 1, of the current scrape.
    pub(crate) scrape: u64,
    /// A hash of the descriptions of metrics that were stored last, and the number of their scrape.
    stored_metadata: Option<(u64, u64)>,
}

impl SeriesMemory {
    /// Returns the series of a text, if it is known.
    pub(crate) fn get(&mut self, text: &str) -> Option<&mut Known> {
        self.by_text.get_mut(&xxh3_128(text.as_bytes()))
    }

    /// Remembers the series of a text.
    pub(crate) fn insert(&mut self, text: &str, labels: Option<Labels>) -> &mut Known {
        let series = labels.map(|labels| (labels.stream_id(), Arc::new(labels)));
        self.bytes += bytes_of(series.as_ref());
        let known = Known { series, seen: 0, ends_with_marker: false };
        self.by_text.entry(xxh3_128(text.as_bytes())).insert_entry(known).into_mut()
    }

    /// Returns the bytes of all entries.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the series that the previous scrape had and this one lacks.
    pub(crate) fn vanished(&self) -> impl Iterator<Item = &(StreamId, Arc<Labels>)> {
        let scrape = self.scrape;
        let gone =
            self.by_text.values().filter(move |known| known.ends_with_marker && known.seen + 1 == scrape);
        gone.filter_map(|known| known.series.as_ref())
    }

    /// Returns the series of this scrape.
    pub(crate) fn present(&self) -> impl Iterator<Item = &(StreamId, Arc<Labels>)> {
        let scrape = self.scrape;
        let there = self.by_text.values().filter(move |known| known.ends_with_marker && known.seen == scrape);
        there.filter_map(|known| known.series.as_ref())
    }

    /// Removes series that ended some scrapes ago.
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

    /// Returns whether descriptions of metrics must be stored: they are new, or were stored long ago.
    pub(crate) fn is_new_metadata(&mut self, metadata: &[MetricMetadata]) -> bool {
        let mut hasher = Xxh3::new();
        for one in metadata {
            for text in [&one.family, &one.unit, &one.help] {
                hasher.update(text.as_bytes());
                hasher.update(&[0xFF, one.kind.number()]);
            }
        }
        let hash = hasher.digest();
        let known = self.stored_metadata.is_some_and(|(stored_metadata, at)| {
            stored_metadata == hash && self.scrape - at < STORED_AGAIN_AFTER
        });
        if !known {
            self.stored_metadata = Some((hash, self.scrape));
        }
        !known
    }

    /// Records that the descriptions could not be stored.
    pub(crate) fn forget_metadata(&mut self) {
        self.stored_metadata = None;
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        *self = Self { scrape: self.scrape, ..Self::default() };
    }
}

fn bytes_of(series: Option<&(StreamId, Arc<Labels>)>) -> u64 {
    let labels =
        series.map_or(0, |(_, labels)| labels.text_bytes() as u64 + labels.len() as u64 * LABEL_BYTES);
    ENTRY_BYTES + labels
}
