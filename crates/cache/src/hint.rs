//! What a caller knows about a value: the admission policy's input.

/// Why a value is put or read. Invariant: a hint never changes an answer, only what stays cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Newly written data, which will probably be read soon: straight to flash.
    Ingest,
    /// An ordinary read or write.
    #[default]
    Point,
    /// Small and needed by nearly every request, such as footers and indexes: kept with priority.
    Metadata,
    /// Part of a pass over `bytes` in total: kept out of flash until it is wanted a second time.
    Scan {
        /// Estimated size of the whole pass in bytes.
        bytes: u64,
    },
}
