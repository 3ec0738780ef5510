//! Inputs of the prediction, and its bounds.

use crate::hint::Hint;

/// Modelled capacities, as multiples of the present one.
pub const SCALES: [f64; 8] = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 10.0];
/// Index of the present capacity in [`SCALES`].
pub const PRESENT: usize = 3;
/// Most keys in a copy.
pub const KEYS_MAX: usize = 6_000;
/// Most memory of a predictor.
pub const MEMORY_BYTES_MAX: usize = 4 << 20;
/// Most steps of all copies per second: at two thirds of a microsecond each, a hundredth of a core.
pub const STEPS_PER_SECOND_MAX: u32 = 15_000;
/// An access to the real cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Hash of the key.
    pub hash: u64,
    /// What happened.
    pub event: Event,
    /// The caller's hint.
    pub hint: Hint,
    /// The tenant that owns the value.
    pub tenant: u32,
    /// Seconds of any monotonic clock.
    pub now_s: u32,
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read that found a value.
    Hit {
        /// Bytes of the value.
        bytes: u32,
    },
    /// A read that found nothing. A following [`Event::Fill`] has the size of the value.
    Miss,
    /// A value was put because a read had missed it.
    Fill {
        /// Bytes of the value.
        bytes: u32,
    },
    /// A value was put for another reason.
    Put {
        /// Bytes of the value.
        bytes: u32,
    },
    /// A value was deleted.
    Removed,
}
