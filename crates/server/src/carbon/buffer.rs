//! Bytes of a connection that wait, in memory that is claimed before it is used.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use sandur_base::Claim;
use sandur_model::TenantId;

use crate::http::{App, parties};

/// Room of the first read: what a sender of a few lines needs.
const ROOM_MIN: usize = 16 << 10;
/// Pause when there is no memory.
const PAUSE: Duration = Duration::from_millis(200);

/// Bytes that were received and not handed on.
pub struct Buffer {
    pub bytes: Vec<u8>,
    claim: Claim,
    /// Room that the next buffer begins with: what the last one held.
    room: usize,
    most: usize,
}

/// Bytes that were handed on, and the memory that they hold.
pub struct Block {
    pub bytes: Bytes,
    pub claim: Claim,
}

impl Buffer {
    /// An empty one that grows to at most `most` bytes.
    pub fn new(app: &App, tenant: &TenantId, peer: Option<SocketAddr>, most: usize) -> Self {
        let claim = app.request_memory.claim(parties(tenant.as_str(), peer));
        Self { bytes: Vec::new(), claim, room: ROOM_MIN, most }
    }

    /// Whether more may be received.
    pub fn has_room(&self) -> bool {
        self.bytes.len() < self.most
    }

    /// Whether it holds memory.
    pub fn is_released(&self) -> bool {
        self.bytes.capacity() == 0
    }

    /// Makes room for `needed` bytes in all at least; waits for memory as long as it takes.
    pub async fn make_room(&mut self, app: &App, needed: usize) {
        if self.bytes.capacity() > self.bytes.len() && self.bytes.capacity() >= needed {
            return;
        }
        let capacity = (self.bytes.capacity() * 2).max(self.room).max(needed).min(self.most.max(needed));
        let wanted = (self.bytes.capacity() + capacity) as u64;
        while let Some(more) = wanted.checked_sub(self.claim.bytes()).filter(|more| *more > 0) {
            if self.claim.grow(more).await.is_err() {
                app.env.sleep(PAUSE).await;
            }
        }
        self.bytes.reserve_exact(capacity - self.bytes.len());
        let unused = self.claim.bytes().saturating_sub(self.bytes.capacity() as u64);
        self.claim.shrink(unused);
    }

    /// Takes the first `whole` bytes out; what stands behind them stays.
    pub async fn split(&mut self, app: &App, mut next: Buffer, whole: usize) -> Block {
        next.room = whole.clamp(ROOM_MIN, self.most);
        if whole < self.bytes.len() {
            next.make_room(app, self.bytes.len() - whole + 1).await;
            next.bytes.extend_from_slice(&self.bytes[whole..]);
        }
        let Buffer { mut bytes, claim, .. } = std::mem::replace(self, next);
        bytes.truncate(whole);
        Block { bytes: bytes.into(), claim }
    }

    /// Gives memory back that nothing stands in.
    pub fn release_if_empty(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > 0 {
            self.bytes = Vec::new();
            self.claim.shrink(self.claim.bytes());
        }
    }
}
