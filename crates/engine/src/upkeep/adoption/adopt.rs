//! Adoption: this process serves and flushes the rows of a writer that died.
//!
//! In a local directory every other unsealed incarnation is dead, because this process holds the lock.
//! Its files are read when the engine opens, so that its rows can be queried at once, and flushed in the
//! background. In a bucket a silent writer may only be slow, so it is fenced first. A fence is an object
//! whose number follows the last segment; the first process to create a number owns it. If the writer
//! has created a segment there, the segment is read and the next number is tried. After the fence the
//! writer cannot acknowledge any more, and its requests in flight for later numbers are void.
//!
//! Segments after the fence are not part of the WAL, but their rows are not discarded: they go through
//! our own WAL, because if a segment was lost from the middle, the later ones were acknowledged.
//!
//! The process that creates the fence adopts the writer. Others that find it leave the writer to that process
//! for as long as a silence, so that its blocks are written once.
//!
//! In both cases one commit seals the writer, adds the blocks and moves its floor to the end. Losing
//! that race to another adopter, or to the writer's own flush, is normal: by then the view has dropped
//! the rows that are in blocks, and the adoption tries again with the rest.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sandur_base::Id;
use sandur_format::catalog_entry::WalKind;
use sandur_format::wal_segment::{FrameId, Record, encode_fence};
use sandur_runtime::{Backoff, Lane};
use sandur_store::{Created, Intent};

use crate::error::Error;
use crate::head::Head;
use crate::upkeep::adoption::other_writers::OtherWriters;
use crate::upkeep::adoption::read_frame::{ReadFrame, WhenFull};
use crate::upkeep::adoption::read_slots::Speed;
use crate::upkeep::adoption::tail::{CaughtUp, WriterTail};
use crate::view::{FrameAt, floor_of};
use crate::writing::flush::outcome::{Ending, Flushed};
use crate::writing::wal;
use crate::writing::wal::frame::{self, FileTail};

/// The pauses between attempts to adopt a writer.
const ADOPTIONS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// A dead writer of this directory whose rows are in our heads.
pub(crate) struct Dead {
    incarnation: Id,
    /// The sequence number at which its WAL ends.
    fence: u64,
}

/// The error of a start that cannot read a file of an earlier process, or the directory of these files.
fn unreadable(path: &str, error: sandur_store::Error) -> Error {
    match error.is_of_object() {
        true => Error::WalUnreadable { path: path.to_owned(), reason: error.to_string() },
        false => error.into(),
    }
}

impl OtherWriters {
    /// Reads the WAL of every writer that is certainly dead into heads: all others of a directory, and
    /// those of a directory that was copied to this bucket.
    pub(crate) async fn recover(&self) -> Result<Vec<Dead>, Error> {
        let own = self.writer.incarnation();
        let snapshot = self.node.catalog.snapshot();
        let mut dead = Vec::new();
        for writer in snapshot.writers().values() {
            // Nothing appends to files in a bucket: they were copied from a directory.
            let is_dead = self.writer.local || writer.wal == WalKind::Local;
            if is_dead && writer.incarnation != own && !writer.is_sealed() {
                dead.push(self.replay(writer.incarnation).await?);
            }
        }
        self.writer.recovering.send_replace(dead.len());
        Ok(dead)
    }

    /// Reads the files of a dead writer into its head.
    async fn replay(&self, incarnation: Id) -> Result<Dead, Error> {
        let directory = format!("wal/{incarnation}");
        let files = self.node.store.list(&directory, Intent::wal()).await;
        let files = files.map_err(|error| unreadable(&directory, error))?;
        let mut files: Vec<(u64, String)> =
            files.into_iter().filter_map(|file| Some((wal::sequence_of(&file.path)?, file.path))).collect();
        files.sort_unstable();
        let floor = floor_of(&self.node.views.current().snapshot, incarnation);
        let mut dead = Dead { incarnation, fence: floor };
        let mut rows = 0;
        for (n, (_, path)) in files.iter().enumerate() {
            let flushed = files.get(n + 1).is_some_and(|(next, _)| *next <= floor);
            if !flushed {
                rows += self.replay_file(path, &mut dead).await?;
            }
        }
        self.node.views.advance(incarnation, dead.fence);
        tracing::info!(%incarnation, rows, end = dead.fence, "the WAL of an earlier process was read");
        Ok(dead)
    }

    async fn replay_file(&self, path: &str, dead: &mut Dead) -> Result<usize, Error> {
        let bytes =
            self.node.store.get(path, Intent::wal()).await.map_err(|error| match error.is_of_object() {
                true => Error::WalUnreadable { path: path.to_owned(), reason: error.to_string() },
                false => error.into(),
            })?;
        let (source, incarnation) = (bytes.clone(), dead.incarnation);
        let found =
            self.node.env.run_cpu(Lane::Background, move || frame::of_file(incarnation, &source)).await;
        if let Some(damage) = found.damage {
            tracing::error!(path, damage, "acknowledged rows in a WAL file are damaged");
            self.keep_damaged(path, bytes.clone()).await;
        }
        match found.tail {
            None => {}
            Some(FileTail { at, is_cut: true }) => {
                tracing::warn!(path, at, "a WAL file ends in an incomplete frame");
            }
            Some(FileTail { at, is_cut: false }) => {
                tracing::error!(path, at, "the last frame of a WAL file is damaged, its rows are left out");
                self.keep_damaged(path, bytes.clone()).await;
            }
        }
        let mut rows = 0;
        for frame in found.frames {
            let sequence = frame.header().id.sequence;
            if sequence < dead.fence || frame::is_fence(&frame) {
                continue;
            }
            dead.fence = sequence + 1;
            let at = FrameAt { incarnation, sequence, stamp: frame.stamp() };
            match self.read_frame(incarnation, frame, &bytes, WhenFull::FlushAll).await? {
                ReadFrame::Batches(batches) => {
                    rows += batches.iter().map(|(batch, _)| batch.rows()).sum::<usize>();
                    self.node.views.insert(at, batches);
                }
                ReadFrame::Damaged(error) => {
                    tracing::error!(path, sequence, %error, "acknowledged rows in a WAL frame are damaged");
                    self.keep_damaged(path, bytes.clone()).await;
                }
                ReadFrame::OutOfMemory { .. } => {
                    let what = "the memory of a dead writer's rows was neither reserved nor refused";
                    return Err(Error::Internal(what.to_owned()));
                }
            }
        }
        Ok(rows)
    }

    /// Flushes and seals dead writers of this directory. Retries until that is done or the engine stops.
    pub(crate) async fn flush_dead(self: Arc<Self>, dead: Vec<Dead>) {
        for dead in dead {
            let mut pauses = ADOPTIONS.pauses();
            while let Err(error) = self.finish(dead.incarnation, dead.fence).await {
                tracing::warn!(incarnation = %dead.incarnation, %error, "an adoption is tried again");
                if !self.node.pause(pauses.after_failure()).await {
                    return;
                }
            }
            self.writer.recovering.send_modify(|count| *count -= 1);
        }
    }

    /// Fences a silent writer of the bucket, reads its WAL to the end, flushes and seals it.
    pub(crate) async fn adopt(&self, tail: &mut WriterTail) -> Result<(), Error> {
        let incarnation = tail.incarnation();
        // A segment may be absent because the writer has flushed and deleted it. The newest floor shows
        // that.
        self.writer.publish(self.node.catalog.refresh().await?);
        let fence = loop {
            let read = tail.read(self, WhenFull::Flush, Speed::Fast).await?;
            if let CaughtUp::Fenced { fence } = read {
                if self.note_fence(incarnation) {
                    self.node.metrics.adoptions_left.inc();
                    return Ok(());
                }
                break fence;
            }
            if floor_of(&self.node.views.current().snapshot, incarnation) == u64::MAX {
                return Ok(());
            }
            let sequence = tail.next();
            let path = wal::path(incarnation, sequence);
            let bytes = encode_fence(FrameId { incarnation, sequence });
            match self.node.store.create(&path, bytes, Intent::wal()).await? {
                Created::New => {
                    self.claim(incarnation);
                    break sequence;
                }
                // A segment that was created first, or another process's fence: the tail reads it.
                Created::Exists(_) => {}
            }
        };
        self.take_after_fence(incarnation, fence).await?;
        self.node.followed.note_fence(incarnation, fence);
        tracing::info!(%incarnation, fence, "a silent writer is fenced and adopted");
        self.finish(incarnation, fence).await
    }

    /// Puts the rows of segments after the fence into our own WAL. Usually there are none, or segments
    /// that were in flight and never acknowledged. But if an earlier segment was lost they may have been
    /// acknowledged, and the two cases cannot be distinguished. Equal rows are stored once.
    async fn take_after_fence(&self, incarnation: Id, fence: u64) -> Result<(), Error> {
        let objects = self.node.store.list(&format!("wal/{incarnation}"), Intent::wal()).await?;
        let after = objects.iter().filter_map(|object| wal::sequence_of(&object.path));
        let mut after: Vec<u64> = after.filter(|sequence| *sequence > fence).collect();
        after.sort_unstable();
        for sequence in after {
            let path = wal::path(incarnation, sequence);
            let bytes = match self.node.store.get(&path, Intent::wal()).await {
                Ok(bytes) => bytes,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            if let Err(error) = self.take_segment(FrameId { incarnation, sequence }, &path, &bytes).await? {
                tracing::error!(%error, "rows in a WAL segment after a fence are damaged");
                self.keep_damaged(&path, bytes).await;
            }
        }
        Ok(())
    }

    /// Writes the rows of a segment to our own WAL. The inner error says how the segment is damaged.
    async fn take_segment(&self, id: FrameId, path: &str, bytes: &Bytes) -> Result<Result<(), Error>, Error> {
        let (name, source) = (path.to_owned(), bytes.clone());
        let open = move || frame::of_object(id, &name, source);
        let frame = match self.node.env.run_cpu(Lane::Background, open).await {
            Ok(frame) => frame,
            Err(damage) => return Ok(Err(damage)),
        };
        let own = self.writer.wal().incarnation();
        let batches = match self.read_frame(own, frame, bytes, WhenFull::Flush).await? {
            ReadFrame::Batches(batches) => batches,
            ReadFrame::Damaged(error) => {
                return Ok(Err(Error::Damaged { path: path.to_owned(), reason: error.to_string() }));
            }
            ReadFrame::OutOfMemory { .. } => Vec::new(),
        };
        for (batch, memory) in batches {
            let wal = self.writer.wal();
            let record = Record::of(&batch).map_err(|error| Error::Internal(error.to_string()))?;
            let outcome = wal.enqueue(batch, record, memory)?;
            outcome.await.unwrap_or_else(|_| Err(wal.status().end_reason()))?;
        }
        Ok(Ok(()))
    }

    /// Flushes the rest of a dead writer and seals it, then deletes its WAL except the fence. Stops when
    /// the writer has moved its floor beyond the fence: it is alive, and the fence is void.
    async fn finish(&self, incarnation: Id, fence: u64) -> Result<(), Error> {
        let (mut seen, mut failed) = (BTreeSet::new(), None);
        loop {
            let floor = floor_of(&self.node.views.current().snapshot, incarnation);
            if floor == u64::MAX {
                return Ok(()); // another process has sealed it
            }
            if floor > fence {
                tracing::info!(%incarnation, fence, floor, "a writer is alive and is not adopted");
                return Ok(());
            }
            self.node.views.seal(incarnation);
            let heads = self.node.views.heads_of(incarnation);
            let next = heads.iter().find(|head| !seen.contains(&head.start()));
            let (head, ending) = match (next, &heads[..]) {
                (None, []) => {
                    let head = Head::new(incarnation, floor, self.node.env.monotonic());
                    (Arc::new(head), Ending::Sealed { fence })
                }
                (None, [..]) => {
                    let internal = || Error::Internal("rows of a dead writer are left".to_owned());
                    return Err(failed.unwrap_or_else(internal));
                }
                (Some(last), [_]) => (Arc::clone(last), Ending::Sealed { fence }),
                (Some(head), [..]) => (Arc::clone(head), Ending::Open),
            };
            if ending != Ending::Open {
                head.advance(fence);
            }
            match self.writer.flush_head(&head, ending).await? {
                Flushed::Committed if ending != Ending::Open => break,
                Flushed::Committed => {}
                Flushed::InPart { failed: reason } => {
                    seen.insert(head.start());
                    failed = failed.or(reason);
                }
                // The writer moved its floor, or another process adopts it: the next round works on the
                // rest.
                Flushed::Overtaken if floor_of(&self.node.views.current().snapshot, incarnation) != floor => {
                }
                // Our own incarnation may not write: it was itself silent for too long.
                Flushed::Overtaken => {
                    let author = self.writer.incarnation();
                    self.writer.publish(self.node.catalog.snapshot());
                    return Err(Error::Overtaken { incarnation: author });
                }
            }
        }
        self.node.metrics.adoptions.inc();
        self.delete_wal(incarnation, fence).await;
        Ok(())
    }

    /// Deletes a sealed writer's WAL except the fence. Garbage collection deletes what cannot be deleted
    /// now.
    async fn delete_wal(&self, incarnation: Id, fence: u64) {
        let objects = match self.node.store.list(&format!("wal/{incarnation}"), Intent::gc()).await {
            Ok(objects) => objects,
            Err(error) => return tracing::warn!(%incarnation, %error, "a flushed WAL could not be listed"),
        };
        let below_fence = |path: &str| wal::sequence_of(path).is_some_and(|sequence| sequence < fence);
        for object in objects.iter().filter(|object| below_fence(&object.path)) {
            if let Err(error) = self.node.store.delete(&object.path, Intent::gc()).await {
                tracing::warn!(path = object.path, %error, "a flushed WAL object could not be deleted");
            }
        }
    }
}
