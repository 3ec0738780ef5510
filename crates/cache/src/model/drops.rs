//! What a policy evicted: the counters that every policy under simulation keeps alike.

/// Evicted values and those of them that were never read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Objects evicted.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects evicted unread.
    pub unfetched_objects: u64,
    /// Their bytes.
    pub unfetched_bytes: u64,
}

impl Drops {
    /// Counts one.
    pub fn count(&mut self, bytes: u64, fetched: bool) {
        self.objects += 1;
        self.bytes += bytes;
        if !fetched {
            self.unfetched_objects += 1;
            self.unfetched_bytes += bytes;
        }
    }

    /// What was counted since `then`.
    pub fn since(&self, then: Self) -> Self {
        Self {
            objects: self.objects - then.objects,
            bytes: self.bytes - then.bytes,
            unfetched_objects: self.unfetched_objects - then.unfetched_objects,
            unfetched_bytes: self.unfetched_bytes - then.unfetched_bytes,
        }
    }
}
