//! The other processes of the bucket as helpers: what they have in memory need not be read from the store.
//!
//! A writer sends the newest frames of its WAL, and the author of a block sends pieces of it from its cache.
//! Everything is in the bucket as well, so an answer that does not come costs time and requests, and nothing
//! else. Who is called follows from the catalog: only writers that are registered and not sealed.
//!
//! **Invariants.** A frame from a peer counts only if it is the frame with the expected number of the
//! expected writer, and a piece only if the checksums of its block match when it is decoded. A peer is
//! awaited for a short time; then the bucket is read. A process never asks itself.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sandur_base::{BoxFuture, Id};
use sandur_catalog::Catalog;

/// How long the answer of a writer may take, in addition to the time that it waits.
const FRAMES_PATIENCE: Duration = Duration::from_millis(250);
/// How long pieces of a block are awaited: not much longer than the bucket needs for a small piece.
const PIECES_PATIENCE: Duration = Duration::from_millis(100);
/// The speed at which pieces are expected (20 MB/s).
const PIECES_BYTES_PER_US: u64 = 20;

/// Calls other processes. `address` is the one in the catalog's registration. A call ends within `patience`,
/// so that the caller can read the bucket instead; who implements the calls learns from it which addresses
/// to leave alone for a while.
pub trait Peers: Send + Sync + fmt::Debug {
    /// Returns the frames that are asked for. `None` if the process does not answer, does not have them in
    /// memory any more, or is not this writer.
    fn frames<'a>(
        &'a self,
        address: &'a str,
        asked: AskedFrames,
        patience: Duration,
    ) -> BoxFuture<'a, Option<PeerFrames>>;

    /// Returns those pieces of a block that the process has in its cache, in the order of the ranges; `None`
    /// if the process does not answer. `asked` is the id of the block and the ranges of the pieces.
    fn pieces<'a>(
        &'a self,
        address: &'a str,
        asked: (Id, &'a [Range<u64>]),
        patience: Duration,
    ) -> BoxFuture<'a, Option<Vec<Option<Bytes>>>>;
}

/// The durable frames of a WAL from a number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskedFrames {
    /// The incarnation that writes the WAL.
    pub writer: Id,
    /// The number of the first frame.
    pub from: u64,
    /// How long the answer may wait for the first frame.
    pub wait: Duration,
    /// Maximum number of bytes of all frames; the first frame may have more. With zero there are no frames,
    /// and the answer says only where the WAL ends.
    pub most_bytes: u64,
}

/// Frames of a WAL, as their writer knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFrames {
    /// The newest number of the catalog's log that the process has read.
    pub catalog: u64,
    /// The number after the last durable frame.
    pub end: u64,
    /// Frames in the order of their numbers, from the one that was asked for.
    pub frames: Vec<Bytes>,
}

/// The processes of a catalog that can be asked.
pub(crate) struct AskedPeers {
    catalog: Catalog,
    /// The address of this process.
    own: String,
    peers: Arc<dyn Peers>,
}

impl AskedPeers {
    pub(crate) fn new(catalog: Catalog, own: String, peers: Arc<dyn Peers>) -> Self {
        Self { catalog, own, peers }
    }

    /// The frames that are asked for, if their writer answers.
    pub(crate) async fn frames(&self, asked: AskedFrames) -> Option<PeerFrames> {
        let address = self.address(asked.writer)?;
        self.peers.frames(&address, asked, asked.wait + FRAMES_PATIENCE).await
    }

    /// The pieces of a block that its author has in its cache; one for each range.
    pub(crate) async fn pieces(
        &self,
        author: Id,
        block: Id,
        ranges: &[Range<u64>],
    ) -> Option<Vec<Option<Bytes>>> {
        let address = self.address(author)?;
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let patience = PIECES_PATIENCE + Duration::from_micros(bytes / PIECES_BYTES_PER_US);
        let pieces = self.peers.pieces(&address, (block, ranges), patience).await?;
        let fits = |(piece, range): (&Option<Bytes>, &Range<u64>)| {
            piece.as_ref().is_none_or(|piece| piece.len() as u64 == range.end - range.start)
        };
        (pieces.len() == ranges.len() && pieces.iter().zip(ranges).all(fits)).then_some(pieces)
    }

    fn address(&self, writer: Id) -> Option<String> {
        let snapshot = self.catalog.snapshot();
        let writer = snapshot.writer(writer).filter(|writer| !writer.is_sealed())?;
        let is_another = !writer.address.is_empty() && writer.address != self.own;
        is_another.then(|| writer.address.clone())
    }
}
