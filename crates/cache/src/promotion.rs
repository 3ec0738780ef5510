//! Promotion to memory and demotion to flash, as a caller may want them instead of what the cache does by
//! itself. memcached's operators have options for both.
//!
//! Invariant: the defaults change nothing.

/// Which items return to memory when they are read from flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promotion {
    /// Those that are worth it: while there is room, and what is read again soon.
    #[default]
    Worthy,
    /// Those that are read again soon, room or not.
    Again,
    /// None.
    Never,
    /// Every one.
    Always,
}

impl Promotion {
    pub(crate) fn from_number(number: u8) -> Self {
        [Self::Worthy, Self::Again, Self::Never, Self::Always][usize::from(number.min(3))]
    }
}

/// Which items leave memory for flash although there is room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demotion {
    /// Not accessed for so many seconds.
    pub idle_s: u32,
    /// Of at least so many bytes, key and value.
    pub least_bytes: u64,
}
