//! A small copy of the cache at one scale, to which its sample of the accesses is applied.

use super::observed::{Event, KEYS_MAX, Observed};
use crate::model::{Found, Kind, Policy, Request, TierOptions, TwoTier};

/// Most segments of a copy. With more, its policy does not work differently.
const SEGMENTS: u64 = 128;

/// Sampled accesses, and those that the copy answered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) reads: f64,
    pub(super) hits: f64,
    pub(super) read_bytes: f64,
    pub(super) hit_bytes: f64,
}

/// The copy.
#[derive(Debug)]
pub(super) struct Instance {
    tiers: TwoTier,
    capacity: u64,
    threshold: u64,
    /// Counts since the last call of `History::close`.
    pub(super) counts: Counts,
}

impl Instance {
    pub(super) fn new(tiers: &TierOptions, scale: f64) -> Self {
        let mut tiers = tiers.clone();
        let scaled = if tiers.flash_bytes > 0 { &mut tiers.flash_bytes } else { &mut tiers.ram_bytes };
        *scaled = (*scaled as f64 * scale) as u64;
        let capacity = *scaled;
        tiers.segment_bytes = tiers.segment_bytes.max(tiers.flash_bytes / SEGMENTS);
        let tiers = TwoTier::of_sample(&tiers, 1.0, KEYS_MAX + 1);
        Self { tiers, capacity, threshold: u64::MAX, counts: Counts::default() }
    }

    /// The capacity in bytes that the copy models.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Share of all keys in its sample.
    pub(super) fn rate(&self) -> f64 {
        self.threshold as f64 / u64::MAX as f64
    }

    pub(super) fn threshold(&self) -> u64 {
        self.threshold
    }

    pub(super) fn samples(&self, hash: u64) -> bool {
        hash <= self.threshold
    }

    pub(super) fn keys(&self) -> usize {
        self.tiers.entries()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.tiers.memory_bytes()
    }

    pub(super) fn observe(&mut self, observed: &Observed) {
        let Observed { hash, event, hint, tenant, now_s: at_s } = *observed;
        let request = |bytes, kind| Request { at_s, hash, bytes, kind, hint, tenant };
        match event {
            Event::Hit { bytes } => {
                let request = request(bytes, Kind::Read);
                let found = self.tiers.find(&request) != Found::Nowhere;
                self.count_read(found);
                self.count_bytes(bytes, found);
                if !found {
                    self.tiers.put(&request);
                }
            }
            Event::Miss => {
                // Counts only as a use. The size of the value is unknown, so it does not move into RAM.
                let found = self.tiers.contains(hash);
                self.count_read(found);
            }
            Event::Fill { bytes } => {
                let request = request(bytes, Kind::Read);
                let found = self.tiers.find(&request) != Found::Nowhere;
                self.count_bytes(bytes, found);
                if !found {
                    self.tiers.put(&request);
                }
            }
            Event::Put { bytes } => self.tiers.put(&request(bytes, Kind::Write)),
            Event::Removed => self.tiers.remove(hash),
        }
    }

    /// Halves the sample: removes keys above the new threshold, and halves the capacity.
    pub(super) fn halve(&mut self) {
        self.threshold /= 2;
        for hash in self.tiers.keys() {
            if !self.samples(hash) {
                self.tiers.remove(hash);
            }
        }
        self.tiers.halve();
        let Counts { reads, hits, read_bytes, hit_bytes } = &mut self.counts;
        for count in [reads, hits, read_bytes, hit_bytes] {
            *count /= 2.0;
        }
    }

    fn count_read(&mut self, found: bool) {
        self.counts.reads += 1.0;
        self.counts.hits += f64::from(u8::from(found));
    }

    fn count_bytes(&mut self, bytes: u32, found: bool) {
        self.counts.read_bytes += f64::from(bytes);
        self.counts.hit_bytes += if found { f64::from(bytes) } else { 0.0 };
    }
}
