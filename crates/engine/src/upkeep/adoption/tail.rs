//! Reads the WAL of another writer of the bucket into a head of this process.
//!
//! **Invariant.** Segments are read in the order of their numbers, without a gap.

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
use crate::view::floor_of;
use crate::writing::wal::{self, frame};

/// The most segments that are fetched concurrently while catching up.
const READ_AHEAD: usize = 8;

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
    },
    /// The writer is fenced: no segment will follow.
    Fenced {
        /// The number of the fence.
        fence: u64,
    },
    /// There is no memory for more rows.
    OutOfMemory,
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

    /// Reads segments into the writer's head until the next one does not exist yet.
    pub(crate) async fn read(
        &mut self,
        others: &OtherWriters,
        when_full: WhenFull,
    ) -> Result<CaughtUp, Error> {
        let floor = floor_of(&others.node.views.current().snapshot, self.incarnation);
        if floor == u64::MAX {
            return Ok(CaughtUp::Yes { segments: 0 });
        }
        self.next = self.next.max(floor);
        let (mut segments, mut ahead) = (0, 1);
        while !self.fenced {
            let from = self.next;
            let mut fetches = Vec::with_capacity(ahead);
            for sequence in from..from + ahead as u64 {
                fetches.push(fetch(others, self.incarnation, sequence));
            }
            let mut fetched = futures_util::stream::iter(fetches).buffered(READ_AHEAD);
            while let Some(segment) = fetched.next().await {
                let Some(bytes) = segment? else {
                    return Ok(CaughtUp::Yes { segments });
                };
                if !self.take(others, bytes, when_full).await? {
                    return Ok(CaughtUp::OutOfMemory);
                }
                segments += 1;
                if self.fenced {
                    break;
                }
            }
            ahead = READ_AHEAD;
        }
        Ok(CaughtUp::Fenced { fence: self.next })
    }

    /// Puts the rows of the next segment into the head. Returns false when there is no memory for them.
    async fn take(
        &mut self,
        others: &OtherWriters,
        bytes: Bytes,
        when_full: WhenFull,
    ) -> Result<bool, Error> {
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
                return Ok(true);
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
            ReadFrame::OutOfMemory => return Ok(false),
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
        Ok(true)
    }
}

async fn fetch(others: &OtherWriters, incarnation: Id, sequence: u64) -> Result<Option<Bytes>, StoreError> {
    match others.node.store.get(&wal::path(incarnation, sequence), Intent::wal()).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
