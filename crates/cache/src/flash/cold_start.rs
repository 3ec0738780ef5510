//! Reasons for which a start discards the content of an earlier run.
//!
//! Invariant: discarded content is logged as a warning with the reason, unless the options request an
//! empty start.

use super::format::Root;
use super::layout::Layout;
use super::options::{FlashOptions, Journaling, Warm};

/// The reasons. See the module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ColdStart {
    /// The options request it.
    #[error("the options request an empty start")]
    Wanted,
    /// The previous run crashed or could not stop cleanly, and the options reuse content only after a
    /// clean stop.
    #[error(
        "the previous run did not stop cleanly, and these options reuse flash after a clean stop only \
         (ext_warm=crash of the memcached server reuses it after a crash too)"
    )]
    Crashed,
    /// Removals may be missing.
    #[error(
        "the previous run did not stop cleanly, and its journal of removals is incomplete: deleted values \
         could come back"
    )]
    JournalLost,
    /// The device has another size.
    #[error("flash had {was} bytes and has {is} bytes now; set the old size to reuse it")]
    Resized {
        /// The size in the earlier run.
        was: u64,
        /// The present size.
        is: u64,
    },
    /// The segments have another size, or other tables.
    #[error("flash was divided into segments of {was} bytes and is divided into segments of {is} bytes now")]
    Divided {
        /// Bytes of a segment in the earlier run.
        was: u32,
        /// Bytes of a segment now.
        is: u64,
    },
}

impl ColdStart {
    /// The reason for which the content of the run that wrote `root` is discarded, if any.
    pub fn of(root: &Root, layout: &Layout, options: &FlashOptions, device_bytes: u64) -> Option<Self> {
        let found = Layout {
            segment_bytes: u64::from(root.segment_bytes),
            segments: root.segments,
            journal_blocks: root.journal_blocks,
            shard_rows: root.shard_rows,
        };
        let never_changes = options.journaling == Journaling::Off;
        match options.warm {
            Warm::Off => Some(Self::Wanted),
            _ if root.device_bytes != device_bytes => {
                Some(Self::Resized { was: root.device_bytes, is: device_bytes })
            }
            _ if found != *layout => {
                Some(Self::Divided { was: root.segment_bytes, is: layout.segment_bytes })
            }
            _ if root.clean => None,
            Warm::Clean => Some(Self::Crashed),
            // Deleted keys must not come back, unless no key ever changes.
            Warm::Crash => (root.journal_lost && !never_changes).then_some(Self::JournalLost),
        }
    }

    /// Logs that the content of the run that wrote `root` is discarded.
    pub fn log(&self, root: &Root) {
        let bytes = u64::from(root.segment_bytes) * u64::from(root.segments);
        if *self == Self::Wanted {
            tracing::info!(bytes, why = %self, "flash starts empty");
        } else {
            tracing::warn!(
                bytes,
                why = %self,
                "flash starts empty: the content of the previous run is discarded"
            );
        }
    }
}

/// Logs that no root could be read although the device is not empty.
pub(super) fn log_unreadable() {
    tracing::warn!(
        "flash starts empty: neither of its roots can be read. They are damaged, or another version or \
         program wrote them. The device is overwritten"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE_BYTES: u64 = 512 << 20;

    #[test]
    fn a_start_that_discards_content_has_a_reason() {
        let layout = Layout::plan(DEVICE_BYTES, None).unwrap();
        let clean = Root {
            clean: true,
            journal_lost: false,
            segment_bytes: layout.segment_bytes as u32,
            device: [9; 16],
            hash_seed: 1,
            turn: 4,
            segments: layout.segments,
            journal_blocks: layout.journal_blocks,
            shard_rows: layout.shard_rows,
            journal_half: 0,
            image: 17,
            next_sequence: 400,
            flushed_below: 3,
            device_bytes: DEVICE_BYTES,
        };
        let crashed = Root { clean: false, ..clean };
        let lost = Root { journal_lost: true, ..crashed };
        let larger = Root { device_bytes: DEVICE_BYTES + 4096, ..clean };
        let coarser = Root { segment_bytes: clean.segment_bytes * 2, ..clean };
        let off = FlashOptions { warm: Warm::Off, ..FlashOptions::default() };
        let after_clean = FlashOptions { warm: Warm::Clean, ..off.clone() };
        let after_crash = FlashOptions { warm: Warm::Crash, ..off.clone() };
        let constant = FlashOptions { journaling: Journaling::Off, ..after_crash.clone() };
        let resized = ColdStart::Resized { was: DEVICE_BYTES + 4096, is: DEVICE_BYTES };
        let divided = ColdStart::Divided { was: coarser.segment_bytes, is: layout.segment_bytes };
        for (root, options, expected) in [
            (clean, &off, Some(ColdStart::Wanted)),
            (clean, &after_clean, None),
            (clean, &after_crash, None),
            (crashed, &after_clean, Some(ColdStart::Crashed)),
            (crashed, &after_crash, None),
            (lost, &after_crash, Some(ColdStart::JournalLost)),
            (lost, &constant, None),
            (larger, &after_crash, Some(resized)),
            (coarser, &after_clean, Some(divided)),
        ] {
            assert_eq!(ColdStart::of(&root, &layout, options, DEVICE_BYTES), expected, "{root:?}");
        }
    }
}
