//! Options of the flash tier, and the errors of opening it.

use std::time::Duration;

use crate::device::{DeviceError, FilePart, Readers};
use crate::policy::WRITE_AMPLIFICATION_MAX;

/// Deadline of a write, in deadlines of a read. A busy disk may need longer for a write than for a read;
/// until then the write buffers absorb new records.
pub(super) const WRITE_DEADLINES: u32 = 5;

/// What a start does with the records of an earlier run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Warm {
    /// Drops them: the cache starts empty.
    Off,
    /// Recovers them after a clean stop, and starts empty after a crash.
    #[default]
    Clean,
    /// Recovers them after a crash too.
    Crash,
}

/// How deletes and overwrites are made to survive a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journaling {
    /// They are not: for keys whose value never changes.
    Off,
    /// They are written in groups every 10 ms: a crash may undo the last 10 ms, a loss of power the last
    /// second.
    #[default]
    Grouped,
    /// They are written as soon as possible and synced; [`Flash::committed`](super::Flash::committed)
    /// resolves then.
    Synced,
}

/// Options of the flash tier. The defaults need no tuning.
#[derive(Clone, Debug)]
pub struct FlashOptions {
    /// Files or block devices, used as one device.
    pub parts: Vec<FilePart>,
    /// Bytes at the end of `parts` that hold only protected records, which are moved there instead of
    /// being dropped from the rest; 0 for no such pool.
    pub kept_bytes: u64,
    /// Size of a segment; `None` chooses between 1 and 64 MiB by the size of the device.
    pub segment_bytes: Option<u64>,
    /// What a start does with the records of an earlier run.
    pub warm: Warm,
    /// How deletes and overwrites survive a crash.
    pub journaling: Journaling,
    /// Most bytes of records that wait to be written. Further records are dropped and counted.
    pub write_buffer_bytes: u64,
    /// Most bytes of reads in flight and of values that callers still hold. Further reads miss.
    pub read_buffer_bytes: u64,
    /// Most bytes of the index. Further records are dropped and counted.
    pub index_bytes_max: u64,
    /// Most bytes of records written for each byte admitted. The part above 1 is for used records, which
    /// are written again.
    pub write_amplification_max: f64,
    /// Most bytes of a value.
    pub value_bytes_max: u64,
    /// How reads of files are executed.
    pub readers: Readers,
    /// A read that takes longer is a miss.
    pub read_deadline: Duration,
    /// A partly filled buffer is written after this time.
    pub write_delay: Duration,
    /// Whether a file with the content of another program is refused. Otherwise it is overwritten, as is one
    /// of ours that is damaged.
    pub refuse_foreign: bool,
}

impl FlashOptions {
    /// The deadline of a write. A write that takes longer hangs, and a value that has waited longer is
    /// dropped.
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
            refuse_foreign: false,
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
    #[error("flash of {bytes} bytes is too small; give at least {least}")]
    TooSmall {
        /// Bytes of the device.
        bytes: u64,
        /// The smallest usable size in bytes.
        least: u64,
    },
    /// Another program wrote the file.
    #[error(
        "'{path}' has content that is not of a cache: nothing was changed. Name another file, or remove this \
         one if it is not needed"
    )]
    Foreign {
        /// The file.
        path: String,
    },
    /// The device failed while it was being opened.
    #[error("flash cannot be prepared: {0}; check the device")]
    Io(#[from] std::io::Error),
}
