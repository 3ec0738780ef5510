//! Hints: what a caller knows about a value, as input of admission.

/// Why a value is put or read. Invariant: a hint never changes an answer, only which values stay cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Newly written data that will probably be read soon: written to flash at once.
    Ingest,
    /// An ordinary read or write.
    #[default]
    Point,
    /// Small and needed by nearly every request, such as footers and indexes: kept with priority.
    Metadata,
    /// Part of a scan over `bytes` in total: not admitted to flash until it is read a second time.
    Scan {
        /// Estimated bytes of the complete scan.
        bytes: u64,
    },
}
