//! Bytes of a connection that are not taken yet, in memory that is claimed before it is used.
//!
//! **Invariants.** There is always room for a read. A buffer grows by what came, not by what was announced: a
//! sender that says it will send a megabyte has no megabyte. An empty one is as small as at its beginning.

use std::io;

use sandur_base::{Claim, Short};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Room at the beginning, and while nothing waits.
const FIRST_BYTES: usize = 1 << 10;
/// What a connection takes in any case: that room, its task, its timers.
pub(crate) const CONNECTION_BYTES: u64 = 4 << 10;
/// Room of one that sends more: the longest line fits in it twice.
const READ_BYTES: usize = 32 << 10;
/// How much more room a long pickle gets at a time: 32 KiB, 256 KiB, all of a megabyte. While bytes move
/// there is the old room beside the new one, so that the last step of a megabyte takes 1.25 MiB.
const STEP: usize = 8;

/// What was received.
pub(crate) struct Buffer {
    /// The bytes; whoever takes some removes them.
    pub(crate) bytes: Vec<u8>,
    claim: Claim,
    was_filled: bool,
}

impl Buffer {
    /// An empty one.
    pub(crate) async fn new(mut claim: Claim) -> Result<Self, Short> {
        claim.grow(CONNECTION_BYTES).await?;
        Ok(Self { bytes: Vec::with_capacity(FIRST_BYTES), claim, was_filled: false })
    }

    /// Reads into the room that there is; 0 at the end. Fails when others need the memory more.
    pub(crate) async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<io::Result<usize>, Short> {
        let Self { bytes, claim, was_filled } = self;
        let read = tokio::select! {
            biased;
            short = claim.given_up() => return Err(short),
            read = stream.read_buf(bytes) => read,
        };
        *was_filled = bytes.len() == bytes.capacity();
        Ok(read)
    }

    /// Makes the room fit what has come, of a message of `next` bytes; waits for memory for a while.
    pub(crate) async fn fit(&mut self, next: usize) -> Result<(), Short> {
        let (length, room) = (self.bytes.len(), self.bytes.capacity());
        if length == 0 {
            self.shrink(FIRST_BYTES);
            return Ok(());
        }
        if !self.was_filled {
            self.shrink(next.max(READ_BYTES));
            return Ok(());
        }
        let more = match room < READ_BYTES {
            true => READ_BYTES,
            false => (room * STEP).min(next.max(READ_BYTES)),
        };
        if more <= room {
            return Ok(());
        }
        if length == room {
            self.claim.grow(more as u64).await?;
        } else if self.claim.try_grow(more as u64).is_err() {
            // Larger reads would be cheaper, and small ones do.
            return Ok(());
        }
        self.bytes.reserve_exact(more - length);
        self.claim.shrink(room as u64);
        Ok(())
    }

    /// Says whether a message has begun that is not whole: the longer it takes, the sooner it makes way.
    pub(crate) fn set_incomplete(&mut self, is_incomplete: bool) {
        self.claim.set_receiving(is_incomplete);
    }

    fn shrink(&mut self, room: usize) {
        let before = self.bytes.capacity();
        if before > room {
            self.bytes.shrink_to(room);
            self.claim.shrink((before - self.bytes.capacity()) as u64);
        }
    }
}
