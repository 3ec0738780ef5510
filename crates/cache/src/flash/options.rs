//! What may be chosen about the flash tier, and what can be wrong with the choice.

use std::time::Duration;

use crate::device::{DeviceError, FilePart, Readers};
use crate::policy::WRITE_AMPLIFICATION_MAX;

/// A write may take as long as so many reads: a busy disk may well need longer for one than for a read, and
/// until then the write buffers take what comes.
pub(super) const WRITE_DEADLINES: u32 = 5;

/// What a start does with the content of an earlier run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Warm {
    /// Nothing: it starts empty.
    Off,
    /// Takes it over after a clean stop, and starts empty after a crash.
    #[default]
    Clean,
    /// Takes it over after a crash too.
    Crash,
}

/// How deletes and overwrites are kept from being undone by a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journaling {
    /// Not at all: for keys whose value never changes.
    Off,
    /// Written together every 10 ms: a crash may undo the last 10 ms, a loss of power the last second.
    #[default]
    Grouped,
    /// As soon as possible and synced; [`Flash::committed`](super::Flash::committed) tells when.
    Synced,
}

/// Options of the flash tier. The defaults need no tuning.
#[derive(Clone, Debug)]
pub struct FlashOptions {
    /// Files or block devices, used as one.
    pub parts: Vec<FilePart>,
    /// Bytes at the end of `parts` that only hold protected records: what is moved out of the rest, which
    /// it is then instead of being dropped; 0 for no such division.
    pub kept_bytes: u64,
    /// Size of a segment; `None` chooses between 1 and 64 MiB by the size of the device.
    pub segment_bytes: Option<u64>,
    /// What a start does with the content of an earlier run.
    pub warm: Warm,
    /// How deletes survive a crash.
    pub journaling: Journaling,
    /// Bytes of records that wait to be written, at most. Beyond, records are dropped and counted.
    pub write_buffer_bytes: u64,
    /// Bytes of reads in flight and of values that callers still hold, at most. Beyond, reads miss.
    pub read_buffer_bytes: u64,
    /// Bytes of the index, at most. Beyond, records are dropped and counted.
    pub index_bytes_max: u64,
    /// Bytes of records written for each byte admitted, at most: what is above 1 is for records that
    /// are written again because they were used.
    pub write_amplification_max: f64,
    /// The longest value.
    pub value_bytes_max: u64,
    /// How reads of files are carried out.
    pub readers: Readers,
    /// A read that takes longer is a miss.
    pub read_deadline: Duration,
    /// Records of a buffer that is not full are written after this time.
    pub write_delay: Duration,
}

impl FlashOptions {
    /// A write that takes longer hangs, and what has waited longer to be written is dropped.
    pub(crate) fn write_deadline(&self) -> Duration {
        self.read_deadline * WRITE_DEADLINES
    }
}

impl Default for FlashOptions {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            kept_bytes: 0,
            segment_bytes: None,
            warm: Warm::default(),
            journaling: Journaling::default(),
            write_buffer_bytes: 32 << 20,
            read_buffer_bytes: 256 << 20,
            index_bytes_max: 1 << 40,
            write_amplification_max: WRITE_AMPLIFICATION_MAX,
            value_bytes_max: 1 << 30,
            readers: Readers::default(),
            read_deadline: Duration::from_secs(1),
            write_delay: Duration::from_millis(500),
        }
    }
}

/// Why the flash tier cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum FlashError {
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The device is too small.
    #[error("flash of {bytes} bytes is too small; give at least {least}, or smaller segments")]
    TooSmall {
        /// Bytes of the device.
        bytes: u64,
        /// The smallest that would do.
        least: u64,
    },
    /// The device failed while it was prepared.
    #[error("flash cannot be prepared: {0}; check the device")]
    Io(#[from] std::io::Error),
}
