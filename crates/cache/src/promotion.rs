//! Promotion to memory and demotion to flash under the caller's control, instead of the cache's own
//! rules. memcached's operators have options for both.
//!
//! Invariant: the defaults leave the cache's own rules in force.

/// Which items are copied to memory when they are read from flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promotion {
    /// Items that were read shortly before, and any item while memory has room to spare.
    #[default]
    Worthy,
    /// Items that were read shortly before.
    Again,
    /// No item.
    Never,
    /// Every item.
    Always,
}

impl Promotion {
    pub(crate) fn from_number(number: u8) -> Self {
        [Self::Worthy, Self::Again, Self::Never, Self::Always][usize::from(number.min(3))]
    }
}

/// Which items move from memory to flash although memory has room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demotion {
    /// Seconds since the last access of the item, at least.
    pub idle_s: u32,
    /// Bytes of key and value together, at least.
    pub least_bytes: u64,
}
