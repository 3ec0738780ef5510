//! The newest exemplars of a tenant's series, and the metadata of its metric families.
//!
//! Both are bounded: beyond [`EXEMPLARS_MAX`] exemplars the oldest are dropped, beyond [`METADATA_MAX`]
//! metadata later ones are dropped. Each has the number of the last frame that brought it, so that a
//! head can be cut at a floor.

use std::collections::{BTreeMap, VecDeque};

use sandur_model::{Exemplar, MetricMetadata};

/// The most exemplars that a head keeps per tenant: the default of Prometheus.
const EXEMPLARS_MAX: usize = 100_000;
/// The most metadata that a head keeps per tenant.
const METADATA_MAX: usize = 100_000;
/// Bytes of exemplars and metadata at which further metadata is dropped. Real tenants have less text.
const BYTES_MAX: u64 = 64 << 20;
/// Bytes of metadata in addition to its texts: its frame, and its entry in the map.
const METADATA_BYTES: u64 = 48;

/// An exemplar of a head.
pub(super) struct HeadExemplar {
    /// The number of its series.
    pub(super) series: u32,
    /// The number of the frame that brought it.
    pub(super) frame: u32,
    /// The observation.
    pub(super) exemplar: Exemplar,
}

/// Exemplars and metadata of one tenant.
#[derive(Default)]
pub(super) struct Annotations {
    exemplars: VecDeque<HeadExemplar>,
    metadata: BTreeMap<MetricMetadata, u32>,
    bytes: u64,
    /// The highest value that `bytes` has had.
    charged: u64,
}

/// Bytes that an exemplar takes.
pub(super) fn exemplar_bytes(exemplar: &Exemplar) -> u64 {
    size_of::<HeadExemplar>() as u64 + exemplar.held_bytes()
}

/// Bytes that metadata takes.
pub(super) fn metadata_bytes(metadata: &MetricMetadata) -> u64 {
    METADATA_BYTES + metadata.memory_bytes()
}

impl Annotations {
    /// Adds an exemplar. Returns by how much the memory grows.
    pub(super) fn add_exemplar(&mut self, one: HeadExemplar) -> u64 {
        if self.exemplars.len() >= EXEMPLARS_MAX
            && let Some(oldest) = self.exemplars.pop_front()
        {
            self.bytes -= exemplar_bytes(&oldest.exemplar);
        }
        self.bytes += exemplar_bytes(&one.exemplar);
        self.exemplars.push_back(one);
        self.charge()
    }

    /// Adds metadata that a frame brought. Returns by how much the memory grows.
    pub(super) fn add_metadata(&mut self, frame: u32, metadata: &MetricMetadata) -> u64 {
        if let Some(last) = self.metadata.get_mut(metadata) {
            *last = frame;
            return 0;
        }
        let bytes = self.bytes.saturating_add(metadata_bytes(metadata));
        if self.metadata.len() >= METADATA_MAX || bytes > BYTES_MAX {
            return 0;
        }
        self.bytes = bytes;
        self.metadata.insert(metadata.clone(), frame);
        self.charge()
    }

    fn charge(&mut self) -> u64 {
        let grown = self.bytes.saturating_sub(self.charged);
        self.charged += grown;
        grown
    }

    /// The exemplars in the order of arrival.
    pub(super) fn exemplars(&self) -> impl Iterator<Item = &HeadExemplar> {
        self.exemplars.iter()
    }

    /// The exemplar at this position of [`Self::exemplars`].
    pub(super) fn exemplar(&self, position: usize) -> Option<&Exemplar> {
        self.exemplars.get(position).map(|one| &one.exemplar)
    }

    /// The metadata, sorted, with the last frame that brought it.
    pub(super) fn metadata(&self) -> impl Iterator<Item = (&MetricMetadata, u32)> {
        self.metadata.iter().map(|(metadata, frame)| (metadata, *frame))
    }

    /// Bytes of all exemplars and metadata.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use sandur_model::Labels;

    use super::*;

    #[test]
    fn beyond_the_limit_the_oldest_exemplars_are_dropped_and_their_memory_is_reused() {
        let mut annotations = Annotations::default();
        let one = |timestamp| HeadExemplar {
            series: 1,
            frame: 0,
            exemplar: Exemplar { labels: Labels::default(), value: 1.0, timestamp },
        };
        let grown: u64 = (0..EXEMPLARS_MAX as i64).map(|n| annotations.add_exemplar(one(n))).sum();
        assert_eq!((grown, annotations.add_exemplar(one(-1))), (annotations.bytes(), 0));
        assert_eq!(annotations.exemplars().next().unwrap().exemplar.timestamp, 1);
        assert_eq!(annotations.exemplars().count(), EXEMPLARS_MAX);
    }

    #[test]
    fn metadata_is_stored_once_with_its_last_frame() {
        let mut annotations = Annotations::default();
        let metadata = MetricMetadata { family: "up".into(), ..MetricMetadata::default() };
        assert!(annotations.add_metadata(1, &metadata) > 0);
        assert_eq!(annotations.add_metadata(5, &metadata), 0);
        assert_eq!(annotations.metadata().collect::<Vec<_>>(), [(&metadata, 5)]);
        let help = "x".repeat(1 + BYTES_MAX as usize).into();
        assert_eq!(annotations.add_metadata(6, &MetricMetadata { help, ..MetricMetadata::default() }), 0);
    }
}
