//! What the prediction is told, and within which bounds it works.

use crate::hint::Hint;

/// Capacities that are modelled, in parts of the present one.
pub const SCALES: [f64; 8] = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 10.0];
/// Position of the present capacity among them.
pub const PRESENT: usize = 3;
/// Most keys in a copy.
pub const KEYS_MAX: usize = 6_000;
/// Most memory of a predictor.
pub const MEMORY_BYTES_MAX: usize = 4 << 20;
/// Most accesses that copies work on per second: at two thirds of a microsecond each a hundredth of a core.
pub const STEPS_PER_SECOND_MAX: u32 = 15_000;
/// An access to the real cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Hash of the key.
    pub hash: u64,
    /// What happened.
    pub event: Event,
    /// What is known about the value.
    pub hint: Hint,
    /// Whose it is.
    pub tenant: u32,
    /// Seconds of any clock that does not go back.
    pub now_s: u32,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read that found a value of so many bytes.
    Hit {
        /// Bytes of the value.
        bytes: u32,
    },
    /// A read that found nothing. If a [`Event::Fill`] follows, that says how large it is.
    Miss,
    /// A value that was put because a read had missed it.
    Fill {
        /// Bytes of the value.
        bytes: u32,
    },
    /// A value that was put for another reason.
    Put {
        /// Bytes of the value.
        bytes: u32,
    },
    /// A value that was deleted.
    Removed,
}
