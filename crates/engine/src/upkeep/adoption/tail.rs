//! Reads the WAL of another writer of the bucket into a head of this process.
//!
//! **Invariants.** Segments are read in the order of their numbers, without a gap. A segment that was read
//! holds a slot until its rows are in memory.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::StreamExt;
use sandur_base::Id;
use sandur_format::wal_segment::FrameId;
use sandur_runtime::Lane;
use sandur_store::{Error as StoreError, Intent};

use crate::error::Error;
use crate::head::Inserted;
use crate::upkeep::adoption::other_writers::OtherWriters;
use crate::upkeep::adoption::read_frame::{ReadFrame, WhenFull};
use crate::upkeep::adoption::read_slots::Speed;
use crate::view::floor_of;
use crate::writing::wal::{self, frame};

/// The position up to which a writer's WAL was read.
pub(crate) struct WriterTail {
    incarnation: Id,
    next: u64,
    fenced: bool,
}

/// The outcome of reading a WAL to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaughtUp {
    /// The next segment is not there yet.
    Yes {
        /// The number of segments that were read.
        segments: u64,
        /// A time after which the next segment was not there.
        as_of: Duration,
    },
    /// The writer is fenced: no segment will follow.
    Fenced {
        /// The number of the fence.
        fence: u64,
    },
    /// There is no memory for more rows; the next ones need this many bytes.
    OutOfMemory {
        /// Bytes of the next rows.
        bytes: u64,
    },
}

impl WriterTail {
    /// The tail of a writer whose rows below `next` are in heads or blocks.
    pub(crate) fn new(incarnation: Id, next: u64) -> Self {
        Self { incarnation, next, fenced: false }
    }

    pub(crate) fn incarnation(&self) -> Id {
        self.incarnation
    }

    /// The number of the next segment.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Reads segments into the writer's head until the next one does not exist yet. When this future is
    /// dropped, a later call continues behind the last segment whose rows are in the head.
    pub(crate) async fn read(
        &mut self,
        others: &OtherWriters,
        when_full: WhenFull,
        speed: Speed,
    ) -> Result<CaughtUp, Error> {
        let floor = floor_of(&others.node.views.current().snapshot, self.incarnation);
        if floor == u64::MAX {
            let as_of = others.node.env.monotonic();
            return Ok(CaughtUp::Yes { segments: 0, as_of });
        }
        if floor > self.next {
            // A fence below the floor is void: the writer had moved its floor before.
            (self.next, self.fenced) = (floor, false);
        }
        let mut segments = 0_u64;
        while !self.fenced {
            let mut slots: Vec<_> = others.slots.one(speed).await.into_iter().collect();
            // Each request behind the end is in vain and billed, so only a long WAL is read far ahead.
            slots.extend(others.slots.more(speed, segments.saturating_sub(1)));
            let (as_of, ahead) = (others.node.env.monotonic(), slots.len().max(1));
            let incarnation = self.incarnation;
            let fetches = (self.next..).take(ahead).map(|sequence| fetch(others, incarnation, sequence));
            let fetches: Vec<_> = fetches.collect();
            let mut fetched = futures_util::stream::iter(fetches).buffered(ahead);
            while let Some(segment) = fetched.next().await {
                let Some(bytes) = segment? else {
                    return Ok(CaughtUp::Yes { segments, as_of });
                };
                if let Some(bytes) = self.take(others, bytes, when_full).await? {
                    return Ok(CaughtUp::OutOfMemory { bytes });
                }
                slots.pop();
                segments += 1;
                if self.fenced {
                    break;
                }
            }
        }
        Ok(CaughtUp::Fenced { fence: self.next })
    }

    /// Puts the rows of the next segment into the head. Returns the bytes that they need when there is no
    /// memory for them.
    async fn take(
        &mut self,
        others: &OtherWriters,
        bytes: Bytes,
        when_full: WhenFull,
    ) -> Result<Option<u64>, Error> {
        let (incarnation, sequence) = (self.incarnation, self.next);
        let path = wal::path(incarnation, sequence);
        let frame = {
            let (path, bytes) = (path.clone(), bytes.clone());
            let open = move || frame::of_object(FrameId { incarnation, sequence }, &path, bytes);
            others.node.env.run_cpu(Lane::Query, open).await
        };
        let read = match frame {
            Ok(frame) if frame::is_fence(&frame) => {
                self.fenced = true;
                return Ok(None);
            }
            Ok(frame) => others.read_frame(incarnation, frame, &bytes, when_full).await?,
            Err(error) => {
                tracing::error!(%error, "acknowledged rows in a WAL segment are damaged");
                others.keep_damaged(&path, bytes.clone()).await;
                ReadFrame::Batches(Vec::new())
            }
        };
        let reserved = match read {
            ReadFrame::Batches(batches) => batches,
            ReadFrame::OutOfMemory { bytes } => return Ok(Some(bytes)),
            ReadFrame::Damaged(error) => {
                tracing::error!(path, %error, "acknowledged rows in a WAL segment are damaged");
                others.keep_damaged(&path, bytes).await;
                Vec::new()
            }
        };
        for inserted in others.node.views.insert(incarnation, sequence, reserved) {
            if let Inserted::Logs(batch) = inserted {
                others.writer.followers.deliver(batch.batch());
            }
        }
        others.node.metrics.followed_segments.inc();
        self.next += 1;
        Ok(None)
    }
}

async fn fetch(others: &OtherWriters, incarnation: Id, sequence: u64) -> Result<Option<Bytes>, StoreError> {
    match others.node.store.get(&wal::path(incarnation, sequence), Intent::wal()).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
