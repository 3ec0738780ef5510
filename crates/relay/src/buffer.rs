//! The receive buffer of a connection, whose memory is reserved before it is used.
//!
//! **Invariants.** There is always room for a read. A buffer grows with the bytes received, not with an
//! announced length: a sender that announces a megabyte does not allocate one. An empty buffer has its
//! initial size.

use std::io;

use sandur_runtime::{FairReservation, Short};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Initial size in bytes, and the size while the buffer is empty.
const FIRST_BYTES: usize = 1 << 10;
/// Bytes that every connection needs: the initial buffer, its task and its timers.
pub(crate) const CONNECTION_BYTES: u64 = 4 << 10;
/// Size for connections that send more. The longest line fits twice.
const READ_BYTES: usize = 32 << 10;
/// Growth factor for a long pickle: 32 KiB, 256 KiB, then a megabyte. While bytes are copied, the old
/// allocation exists next to the new one, so the last step to a megabyte needs 1.25 MiB.
const STEP: usize = 8;

/// The received bytes of a connection.
pub(crate) struct Buffer {
    /// The bytes. The consumer removes those that it has processed.
    pub(crate) bytes: Vec<u8>,
    reservation: FairReservation,
    was_filled: bool,
}

impl Buffer {
    /// Makes an empty buffer.
    pub(crate) async fn new(mut reservation: FairReservation) -> Result<Self, Short> {
        reservation.grow(CONNECTION_BYTES).await?;
        Ok(Self { bytes: Vec::with_capacity(FIRST_BYTES), reservation, was_filled: false })
    }

    /// Reads into the free space; returns 0 at the end of the stream. Fails when the reservation loses its
    /// memory to others.
    pub(crate) async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<io::Result<usize>, Short> {
        let Self { bytes, reservation, was_filled } = self;
        let read = tokio::select! {
            biased;
            short = reservation.given_up() => return Err(short),
            read = stream.read_buf(bytes) => read,
        };
        *was_filled = bytes.len() == bytes.capacity();
        Ok(read)
    }

    /// Resizes the buffer for a message of `next` bytes. May wait for memory.
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
            self.reservation.grow(more as u64).await?;
        } else if self.reservation.try_grow(more as u64).is_err() {
            // Larger reads would be faster, but small ones work.
            return Ok(());
        }
        self.bytes.reserve_exact(more - length);
        self.reservation.shrink(room as u64);
        Ok(())
    }

    /// Sets whether a message is incomplete. The longer it takes, the sooner the reservation loses its
    /// memory.
    pub(crate) fn set_incomplete(&mut self, is_incomplete: bool) {
        self.reservation.set_receiving(is_incomplete);
    }

    fn shrink(&mut self, room: usize) {
        let before = self.bytes.capacity();
        if before > room {
            self.bytes.shrink_to(room);
            self.reservation.shrink((before - self.bytes.capacity()) as u64);
        }
    }
}
