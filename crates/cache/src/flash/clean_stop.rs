//! Which clean stop of a device it is: for what is kept elsewhere and holds for that stop alone.
//!
//! Invariant: no two stops of a device are equal, and a run that did not end cleanly has none.

use std::fmt;

use super::format::Root;

/// A clean stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanStop {
    device: [u8; 16],
    /// The turn of the root, which every start and stop raises.
    turn: u64,
}

impl CleanStop {
    pub(super) fn new(device: [u8; 16], turn: u64) -> Self {
        Self { device, turn }
    }

    /// The stop that `root` was written at, if it was one.
    pub(super) fn of(root: &Root) -> Option<Self> {
        root.clean.then_some(Self::new(root.device, root.turn))
    }

    /// Reads what was written with `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        let (device, turn) = text.split_once(':')?;
        let device = u128::from_str_radix(device, 16).ok()?.to_be_bytes();
        Some(Self { device, turn: turn.parse().ok()? })
    }
}

impl fmt::Display for CleanStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}:{}", u128::from_be_bytes(self.device), self.turn)
    }
}
