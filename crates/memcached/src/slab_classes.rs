//! The slab classes into which memcached would put items.
//!
//! Our engine has no slabs. Exporters, dashboards and tests read `stats items` and `stats slabs` by
//! class, so items are counted in the classes of memcached's geometry: the first chunk has a 48-byte
//! item header and `-n` bytes, each further one is `-f` times larger and a multiple of 8, the last is
//! `slab_chunk_max`. Larger items belong to the last class.
//!
//! Invariants: class numbers start at 1; sizes increase strictly; every size has exactly one class.

/// Bytes before the key of an item in memcached on a 64-bit machine.
const ITEM_HEADER: u64 = 48;
/// Bytes of the version number in each item.
const CAS_BYTES: u64 = 8;
/// Bytes of client flags, which are only stored when they are not 0.
const FLAGS_BYTES: u64 = 4;
/// Bytes of a slab page.
pub(super) const PAGE_BYTES: u64 = 1 << 20;
/// The largest number of classes, including class 0: the protocol numbers them below 64.
pub(super) const CLASSES_MAX: usize = 64;
/// Sizes up to this many bytes are mapped to their class by a table.
const DIRECT_BYTES: usize = 16 << 10;

/// Chunk sizes by class, and a table for fast lookup of small sizes.
#[derive(Clone, Debug)]
pub(super) struct SlabClasses {
    chunks: Vec<u64>,
    direct: Vec<u8>,
    cas: bool,
}

impl SlabClasses {
    /// Computes the classes from a growth factor, the least space for key and value, and the largest
    /// chunk.
    pub fn new(factor: f64, least: u64, largest: u64, cas: bool) -> Self {
        let mut chunks = Vec::new();
        let mut size = ITEM_HEADER + least;
        while chunks.len() < CLASSES_MAX - 2 && (size as f64) < largest as f64 / factor {
            size = size.next_multiple_of(8);
            chunks.push(size);
            size = ((size as f64 * factor) as u64).max(size + 8);
        }
        chunks.push(largest);
        let class = |bytes: u64| chunks.partition_point(|chunk| *chunk < bytes).min(chunks.len() - 1) + 1;
        let direct = (0..=DIRECT_BYTES / 8).map(|n| class(n as u64 * 8) as u8).collect();
        Self { chunks, direct, cas }
    }

    /// Returns the bytes that memcached would count for an item.
    #[inline]
    pub fn item_bytes(&self, key: usize, value: u64, flags: u32) -> u64 {
        let flags = if flags == 0 { 0 } else { FLAGS_BYTES };
        let cas = if self.cas { CAS_BYTES } else { 0 };
        // the key is followed by a zero byte and the value by a line end
        ITEM_HEADER + cas + key as u64 + 1 + flags + value + 2
    }

    /// Returns the class of an item of `bytes` bytes.
    #[inline]
    pub fn class(&self, bytes: u64) -> usize {
        let slot = bytes.div_ceil(8) as usize;
        match self.direct.get(slot) {
            Some(class) => usize::from(*class),
            None => self.chunks.partition_point(|chunk| *chunk < bytes).min(self.chunks.len() - 1) + 1,
        }
    }

    /// Returns the chunk size of a class in bytes.
    pub fn chunk(&self, class: usize) -> u64 {
        self.chunks[class - 1]
    }

    /// Returns the number of the last class.
    pub fn last(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the number of chunks for an item of `bytes` bytes: more than one for items above the
    /// largest chunk.
    pub fn chunks_taken(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.chunk(self.last())).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_geometry_is_that_of_memcached() {
        let classes = SlabClasses::new(1.25, 48, 512 << 10, true);
        let sizes: Vec<u64> = (1..=5).map(|class| classes.chunk(class)).collect();
        assert_eq!(sizes, [96, 120, 152, 192, 240]);
        assert_eq!(classes.last(), 39);
        assert_eq!(classes.chunk(39), 512 << 10);
        // the class that memcached's own tests name for values of 66,560 bytes
        assert_eq!(classes.class(classes.item_bytes(4, 66_560, 0)), 31);
    }

    #[test]
    fn every_size_has_one_class_whose_chunk_is_large_enough() {
        let classes = SlabClasses::new(1.25, 48, 512 << 10, true);
        for bytes in (1..600_000).step_by(7) {
            let class = classes.class(bytes);
            assert!((1..=classes.last()).contains(&class));
            assert!(class == classes.last() || bytes <= classes.chunk(class), "{bytes}");
            assert!(class == 1 || bytes > classes.chunk(class - 1), "{bytes}");
        }
    }

    #[test]
    fn extreme_options_still_give_classes() {
        for (factor, least, largest) in [(1.0001, 1, 1 << 10), (100.0, 1 << 20, 1 << 10), (1.25, 48, 1 << 20)]
        {
            let classes = SlabClasses::new(factor, least, largest, false);
            assert!(classes.last() >= 1 && classes.last() < CLASSES_MAX);
        }
    }
}
