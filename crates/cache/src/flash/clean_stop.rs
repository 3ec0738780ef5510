//! The end of a run: everything is written, with a complete image of the index and a root that says so.
//! Also the identity of that stop, for data that is stored elsewhere and valid only for it.
//!
//! A slow stop is not a failure of the device: there is no deadline, a failed write is tried again, and
//! a device that is not in use is probed before it is given up.
//!
//! Invariants: no two stops of a device are equal, and a run that did not end cleanly has none. An
//! unclean stop is logged with its reason.

use std::fmt;
use std::time::Duration;

use super::core::Core;
use super::format::Root;
use super::health::Health;

/// Attempts to write the image at a stop.
const IMAGE_TRIES: u32 = 3;

/// A clean stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanStop {
    device: [u8; 16],
    /// The number of the root, which every start and stop increases.
    turn: u64,
}

impl CleanStop {
    pub(super) fn new(device: [u8; 16], turn: u64) -> Self {
        Self { device, turn }
    }

    /// The stop at which `root` was written, if it was one.
    pub(super) fn of(root: &Root) -> Option<Self> {
        root.clean.then_some(Self::new(root.device, root.turn))
    }

    /// Parses the text that `Display` writes.
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

/// Why a stop was not clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unclean {
    /// The device accepts no writes.
    #[error("the device is {} and a probe of it failed", .0.name())]
    Device(Health),
    /// The writes of the image failed.
    #[error("the image of the index could not be written in {IMAGE_TRIES} tries")]
    Image,
    /// There are not enough free segments for the image, and none can be reclaimed.
    #[error("the image of the index needs more segments than can be freed; give flash more space")]
    NoRoom,
}

impl Core {
    /// Writes everything, with an image of the index. The threads have ended, so that nothing else writes.
    pub fn stop_cleanly(&self) -> Result<CleanStop, Unclean> {
        // Full buffers first: a probe needs one.
        while self.writer.write_next(Duration::ZERO) {}
        self.probe_unless_well();
        self.writer.seal_all();
        while self.writer.write_next(Duration::ZERO) {}
        // For the next start if there is no image; an image covers the journal too.
        self.journal.commit(true);
        let (mut tries, mut reclaimed) = (0, 0);
        loop {
            if self.images.write_image(true) {
                return Ok(CleanStop::new(self.disk.device_id, self.roots.turn()));
            }
            if !self.disk.watch.may_write() {
                return Err(Unclean::Device(self.disk.watch.health()));
            }
            if self.images.has_room_for_image() {
                tries += 1;
                if tries == IMAGE_TRIES {
                    return Err(Unclean::Image);
                }
                continue;
            }
            // The image may need more segments than are free: evict the oldest records.
            reclaimed += 1;
            if reclaimed > self.space.table.len() || !self.reclaimer.reclaim_for_image() {
                return Err(Unclean::NoRoom);
            }
            while self.writer.write_next(Duration::ZERO) {}
        }
    }
}
