//! Reads objects of a bucket in pieces of [`PIECE_BYTES`], with read-ahead.
//!
//! The objects of a block share [`HELD_MAX`] pieces, so their memory is bounded whatever the size of the
//! objects. Reading that goes on where it was requests the next [`AHEAD`] pieces before they are needed. The
//! store repeats requests that failed for a moment; an error here is final.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use sandur_runtime::{Env, Task};
use sandur_store::{Intent, Store};
use sandur_tsdb::Error;
use tokio::sync::oneshot;

/// Bytes that are requested at a time.
pub const PIECE_BYTES: u64 = 4 << 20;
/// Pieces that are requested before they are needed.
const AHEAD: u64 = 2;
/// Most pieces of a block in memory: those of the index and of a file of chunks, each with read-ahead.
pub const HELD_MAX: usize = 8;
/// Reads of fewer bytes are sent as they are, unless the piece is in memory: heads of files.
const DIRECT_BYTES_MAX: usize = 64 << 10;

/// A bucket from which a thread reads.
#[derive(Clone)]
pub struct Bucket {
    pub env: Env,
    pub store: Store,
    /// Whether the bucket failed, and not only an object of it.
    is_lost: Arc<AtomicBool>,
}

/// A request that was sent.
pub struct Pending {
    bucket: Bucket,
    answer: oneshot::Receiver<Result<Bytes, sandur_store::Error>>,
    /// Dropping it ends the request.
    _task: Task<()>,
}

impl Bucket {
    /// Reads from a store.
    pub fn new(env: Env, store: Store) -> Self {
        Self { env, store, is_lost: Arc::new(AtomicBool::new(false)) }
    }

    /// Whether the bucket can no longer be read. Further reads would fail after as many retries.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Requests a range of an object.
    pub fn begin(&self, path: &str, range: Range<u64>) -> Pending {
        let (reply, answer) = oneshot::channel();
        let (store, path) = (self.store.clone(), path.to_owned());
        let task = self.env.spawn("import-fetch", async move {
            let read = store.get_range(&path, range, Intent::block()).await;
            // Nobody waits for it any more: the block has failed, or the import has ended.
            let _ = reply.send(read);
        });
        Pending { bucket: self.clone(), answer, _task: task }
    }
}

impl Pending {
    /// Waits on this thread, which must be one that may block.
    pub fn wait(self) -> Result<Bytes, String> {
        let answer = self.answer.blocking_recv();
        let read = answer.map_err(|_| "the request was cancelled".to_owned())?;
        read.map_err(|error| {
            if !error.is_of_object() {
                self.bucket.is_lost.store(true, Ordering::Relaxed);
            }
            reason(&error)
        })
    }
}

/// Why an object cannot be read.
fn reason(error: &sandur_store::Error) -> String {
    match error {
        sandur_store::Error::NotFound { .. } => {
            "it is no longer in the bucket: Thanos or Mimir deletes blocks that they have compacted; the \
             block that replaces it is imported when the command is repeated"
                .to_owned()
        }
        sandur_store::Error::Length { expected, found, .. } => {
            format!("has {found} bytes of {expected} that the bucket listed: it is truncated or was replaced")
        }
        other => other.to_string(),
    }
}

/// A piece of a file.
struct Piece {
    file: usize,
    number: u64,
    state: State,
}

enum State {
    Pending(Option<Pending>),
    Ready(Bytes),
}

/// The pieces of the files of a block, the least recently used first.
#[derive(Default)]
pub struct Pieces {
    held: VecDeque<Piece>,
    /// The last piece that was read, by file.
    last: BTreeMap<usize, u64>,
}

/// An object that is read through pieces.
pub struct Object<'a> {
    pub bucket: &'a Bucket,
    pub path: &'a str,
    pub size: u64,
    /// Its number among the files of the block.
    pub file: usize,
}

impl Object<'_> {
    /// Fills `buffer` from a position.
    pub fn read(&self, pieces: &mut Pieces, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let end = offset + buffer.len() as u64;
        if end > self.size {
            return Err(Error::Truncated { what: "the object", offset, needed: end - self.size });
        }
        let failed = |reason: String| Error::Io { offset, reason };
        let first = offset / PIECE_BYTES;
        if buffer.len() <= DIRECT_BYTES_MAX && pieces.position(self.file, first).is_none() {
            let bytes = self.bucket.begin(self.path, offset..end).wait().map_err(failed)?;
            return copy(&bytes, 0, buffer).ok_or_else(|| failed("the answer is too short".to_owned()));
        }
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let number = at / PIECE_BYTES;
            let now = (self.range(number).end - at).min(rest.len() as u64) as usize;
            let (part, later) = rest.split_at_mut(now);
            let bytes = self.piece(pieces, number).map_err(failed)?;
            let start = (at - number * PIECE_BYTES) as usize;
            copy(&bytes, start, part).ok_or_else(|| failed("the answer is too short".to_owned()))?;
            (at, rest) = (at + now as u64, later);
        }
        Ok(())
    }

    fn range(&self, number: u64) -> Range<u64> {
        let start = number * PIECE_BYTES;
        start..(start + PIECE_BYTES).min(self.size)
    }

    fn piece(&self, pieces: &mut Pieces, number: u64) -> Result<Bytes, String> {
        let last = pieces.last.insert(self.file, number);
        let goes_on = last.is_some_and(|last| last == number || last + 1 == number);
        let ahead = if goes_on { number + AHEAD } else { number };
        for wanted in number..=ahead {
            if wanted * PIECE_BYTES < self.size && !pieces.use_held(self.file, wanted) {
                let request = self.bucket.begin(self.path, self.range(wanted));
                pieces.add(Piece { file: self.file, number: wanted, state: State::Pending(Some(request)) });
            }
        }
        pieces.take(self.file, number)
    }
}

impl Pieces {
    /// The number of pieces in memory.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.held.len()
    }

    fn position(&self, file: usize, number: u64) -> Option<usize> {
        self.held.iter().position(|piece| (piece.file, piece.number) == (file, number))
    }

    /// Makes a piece the most recently used one, so that those that are added do not replace it. Returns
    /// whether it is held.
    fn use_held(&mut self, file: usize, number: u64) -> bool {
        let held = self.position(file, number).and_then(|at| self.held.remove(at));
        let is_held = held.is_some();
        self.held.extend(held);
        is_held
    }

    fn add(&mut self, piece: Piece) {
        if self.held.len() >= HELD_MAX {
            self.held.pop_front();
        }
        self.held.push_back(piece);
    }

    /// Waits for a piece that was requested, and makes it the most recently used one.
    fn take(&mut self, file: usize, number: u64) -> Result<Bytes, String> {
        let cancelled = || "the request was cancelled".to_owned();
        let at = self.position(file, number).ok_or_else(cancelled)?;
        let mut piece = self.held.remove(at).ok_or_else(cancelled)?;
        let bytes = match &mut piece.state {
            State::Ready(bytes) => bytes.clone(),
            // A piece that failed is not kept, so that it is requested again.
            State::Pending(request) => request.take().ok_or_else(cancelled)?.wait()?,
        };
        piece.state = State::Ready(bytes.clone());
        self.held.push_back(piece);
        Ok(bytes)
    }
}

fn copy(bytes: &Bytes, start: usize, to: &mut [u8]) -> Option<()> {
    to.copy_from_slice(bytes.get(start..)?.get(..to.len())?);
    Some(())
}
