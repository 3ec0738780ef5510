//! Received bytes of a connection that are not yet processed, in memory that is reserved before it is
//! used.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use sandur_runtime::FairReservation;
use sandur_service::writes::lasting_parties;

use super::Carbon;

/// Size of the first read: enough for a sender of a few lines.
const ROOM_MIN: usize = 16 << 10;
/// Pause when there is no memory.
const PAUSE: Duration = Duration::from_millis(200);

/// Bytes that were received but not yet passed on.
pub struct Buffer {
    pub bytes: Vec<u8>,
    reservation: FairReservation,
    /// Whether its content is with a block that will return it.
    is_lent: bool,
    /// Initial size of the next buffer: the size of the last block.
    room: usize,
    most: usize,
}

/// Bytes that were passed on, and the memory that they use.
pub struct Block {
    pub bytes: Bytes,
    pub rest: Rest,
}

/// The memory of a block, and the bytes after it if there was no other memory for them.
pub struct Rest {
    bytes: Option<Bytes>,
    reservation: FairReservation,
}

impl Buffer {
    /// An empty buffer that grows to at most `most` bytes.
    pub fn new(carbon: &Carbon, peer: Option<SocketAddr>, most: usize) -> Self {
        let reservation = carbon.writes.memory().reservation(lasting_parties(peer)).lasting();
        Self { bytes: Vec::new(), reservation, is_lent: false, room: ROOM_MIN, most }
    }

    /// Whether more bytes may be received.
    pub fn has_room(&self) -> bool {
        !self.is_lent && self.bytes.len() < self.most
    }

    /// Whether it has no memory.
    pub fn is_released(&self) -> bool {
        self.bytes.capacity() == 0
    }

    /// Makes room for at least `needed` bytes in total; waits for memory without a limit.
    pub async fn make_room(&mut self, carbon: &Carbon, needed: usize) {
        let Some(capacity) = self.capacity_for(needed) else { return };
        while let Some(more) = self.missing(capacity) {
            if self.reservation.grow(more).await.is_err() {
                carbon.env.sleep(PAUSE).await;
            }
        }
        self.widen(capacity);
    }

    /// The same without waiting; returns whether there was memory.
    fn try_make_room(&mut self, needed: usize) -> bool {
        let Some(capacity) = self.capacity_for(needed) else { return true };
        if self.missing(capacity).is_some_and(|more| self.reservation.try_grow(more).is_err()) {
            return false;
        }
        self.widen(capacity);
        true
    }

    /// The required capacity; `None` if it is already large enough.
    fn capacity_for(&self, needed: usize) -> Option<usize> {
        let now = self.bytes.capacity();
        let is_enough = now > self.bytes.len() && now >= needed;
        (!is_enough).then(|| (now * 2).max(self.room).max(needed).min(self.most.max(needed)))
    }

    /// Bytes to reserve before it can have this capacity: the old memory exists until the new one is
    /// filled.
    fn missing(&self, capacity: usize) -> Option<u64> {
        let wanted = (self.bytes.capacity() + capacity) as u64;
        wanted.checked_sub(self.reservation.bytes()).filter(|more| *more > 0)
    }

    fn widen(&mut self, capacity: usize) {
        self.bytes.reserve_exact(capacity - self.bytes.len());
        let unused = self.reservation.bytes().saturating_sub(self.bytes.capacity() as u64);
        self.reservation.shrink(unused);
    }

    /// Takes the first `whole` bytes. The bytes after them move to new memory. If there is none
    /// immediately, they stay with the block, and nothing is received until the block comes back: if
    /// connections waited here for memory that only stored blocks release, they would wait for each
    /// other.
    pub fn split(&mut self, mut next: Buffer, whole: usize) -> Block {
        next.room = whole.clamp(ROOM_MIN, self.most);
        let rest_bytes = self.bytes.len() - whole;
        next.is_lent = rest_bytes > 0 && !next.try_make_room(rest_bytes + 1);
        if !next.is_lent {
            next.bytes.extend_from_slice(&self.bytes[whole..]);
            self.bytes.truncate(whole);
        }
        let Buffer { bytes, reservation, .. } = std::mem::replace(self, next);
        let bytes = Bytes::from(bytes);
        let rest = self.is_lent.then(|| bytes.slice(whole..));
        Block { bytes: bytes.slice(..whole), rest: Rest { bytes: rest, reservation } }
    }

    /// Takes back the bytes that a block carried, once the block is stored.
    pub fn take_back(&mut self, rest: Rest) {
        if let Some(bytes) = rest.bytes {
            // There is no other reference to the bytes, so they move within their memory.
            self.bytes = bytes.into();
            self.reservation = rest.reservation;
            self.is_lent = false;
        }
    }

    /// Releases memory that is unused.
    pub fn release_if_empty(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > 0 {
            self.bytes = Vec::new();
            self.reservation.shrink(self.reservation.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use sandur_memory::MemoryBudget;
    use sandur_runtime::{Env, FairBudget};

    use super::*;
    use sandur_service::writes::BODY_PATIENCE;

    fn buffer(memory: &FairBudget) -> Buffer {
        let reservation = memory.reservation(lasting_parties(None)).lasting();
        Buffer { bytes: Vec::new(), reservation, is_lent: false, room: ROOM_MIN, most: 1 << 20 }
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_message_does_not_wait_for_memory_of_others() {
        let budget = MemoryBudget::root("bodies", 1 << 20);
        let memory = FairBudget::new(Env::simulated(1, 0), budget, BODY_PATIENCE);
        let mut full = buffer(&memory);
        assert!(full.try_make_room(100));
        full.bytes.extend_from_slice(b"whole\nhalf");
        let before = memory.budget().used();
        memory.set_paused(true);
        let block = full.split(buffer(&memory), 6);
        assert_eq!((&*block.bytes, full.bytes.len(), full.has_room()), (&b"whole\n"[..], 0, false));
        drop(block.bytes);
        full.take_back(block.rest);
        assert_eq!((&*full.bytes, full.has_room(), memory.budget().used()), (&b"half"[..], true, before));
        assert!(full.bytes.capacity() >= ROOM_MIN, "in the same memory");
        memory.set_paused(false);
        let block = full.split(buffer(&memory), 2);
        assert_eq!((&*block.bytes, &*full.bytes, full.has_room()), (&b"ha"[..], &b"lf"[..], true));
    }
}
