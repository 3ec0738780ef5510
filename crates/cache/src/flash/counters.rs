//! The counters of the flash tier.
//!
//! Invariant: counters only grow. A reader sees each value completely, but not all values of one instant.

use std::sync::atomic::{AtomicU64, Ordering};

use super::observer::Dropped;

/// One counter.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Lists each counter once: its field, and its copy in the public [`Counts`].
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Default)]
        pub(super) struct Counters {
            $(pub $name: Counter,)*
            dropped: [Counter; Dropped::ALL.len()],
        }

        /// Counters since the cache was opened.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
            /// Records dropped, by reason in the order of [`Dropped::ALL`].
            pub dropped: [u64; Dropped::ALL.len()],
        }

        impl Counters {
            pub fn counts(&self) -> Counts {
                Counts {
                    $($name: self.$name.get(),)*
                    dropped: std::array::from_fn(|n| self.dropped[n].get()),
                }
            }
        }
    };
}

counters! {
    /// Records written.
    records_written,
    /// Bytes of keys and values of these records.
    bytes_admitted,
    /// Bytes written to the device: records, footers, journal, image, padding.
    bytes_written,
    /// Records written again because they were used.
    records_reinserted,
    /// Reads that returned a value.
    reads_hit,
    /// Bytes read from the device for lookups.
    bytes_read,
    /// Reads answered from write buffers.
    reads_unwritten,
    /// Reads whose record had been reclaimed or flushed.
    reads_stale,
    /// Reads that found another key with the same tag.
    reads_false_match,
    /// Reads that failed a checksum.
    reads_corrupt,
    /// Reads that failed on the device.
    reads_failed,
    /// Reads that the device did not answer in time.
    reads_late,
    /// Reads refused because too many bytes or reads were in flight.
    reads_overloaded,
    /// Reads of records that had expired.
    reads_expired,
    /// Segments opened.
    segments_opened,
    /// Segments reclaimed.
    segments_reclaimed,
    /// Segments spared because they were read.
    segments_spared,
    /// Segments compacted: their live records were moved and the segments freed.
    segments_compacted,
    /// Bytes of records dropped to make room, including dead ones in the freed segments.
    bytes_evicted,
    /// Segments taken out of use after a failed write.
    segments_retired,
    /// Writes that failed on the device.
    writes_failed,
    /// Journal entries written.
    journal_entries,
    /// Journal entries that could not be written.
    journal_lost,
    /// Images of the index written.
    images_written,
    /// Records recovered at the start.
    records_recovered,
}

impl Counters {
    pub fn drop_of(&self, reason: Dropped, records: u64) {
        let place = Dropped::ALL.iter().position(|&r| r == reason).unwrap_or_default();
        self.dropped[place].add(records);
    }
}

impl Counts {
    /// Number of records dropped for the given reason.
    pub fn dropped_for(&self, reason: Dropped) -> u64 {
        Dropped::ALL.iter().zip(self.dropped).find(|(r, _)| **r == reason).map_or(0, |(_, n)| n)
    }

    /// Bytes written to the device for each byte admitted.
    pub fn write_amplification(&self) -> f64 {
        self.bytes_written as f64 / self.bytes_admitted.max(1) as f64
    }
}
