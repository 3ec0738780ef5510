//! Evictions of a policy: the counters that every simulated policy has.

/// Evicted values and those of them that were never read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Number of evicted objects.
    pub objects: u64,
    /// Bytes of evicted objects.
    pub bytes: u64,
    /// Number of objects evicted unread.
    pub unfetched_objects: u64,
    /// Bytes of objects evicted unread.
    pub unfetched_bytes: u64,
}

impl Drops {
    /// Counts an evicted object.
    pub fn count(&mut self, bytes: u64, fetched: bool) {
        self.objects += 1;
        self.bytes += bytes;
        if !fetched {
            self.unfetched_objects += 1;
            self.unfetched_bytes += bytes;
        }
    }

    /// The counts since `then`.
    pub fn since(&self, then: Self) -> Self {
        Self {
            objects: self.objects - then.objects,
            bytes: self.bytes - then.bytes,
            unfetched_objects: self.unfetched_objects - then.unfetched_objects,
            unfetched_bytes: self.unfetched_bytes - then.unfetched_bytes,
        }
    }
}
