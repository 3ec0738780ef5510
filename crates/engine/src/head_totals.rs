//! What heads of every signal hold, in sums.

/// Sums of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadTotals {
    /// Entries and samples, duplicates included as far as they are kept.
    pub rows: u64,
    /// Bytes of lines, of timestamps and of values.
    pub raw_bytes: u64,
    /// Bytes reserved for them.
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
