//! Sums over the rows of a head, for both signals.

/// Sums over the rows of a head or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadTotals {
    /// Number of entries and samples, with the duplicates that are kept.
    pub rows: u64,
    /// Bytes of lines, of timestamps and of values.
    pub raw_bytes: u64,
    /// Bytes of memory reserved for them.
    pub memory_bytes: u64,
}

impl HeadTotals {
    /// Adds the sums of another.
    pub fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.raw_bytes += other.raw_bytes;
        self.memory_bytes += other.memory_bytes;
    }
}
