//! Reads the WAL of another writer of the bucket into a head of this process.
//!
//! While the writer is alive it is asked for its newest frames; the bucket is read when it does not answer or
//! does not have them in memory any more.
//!
//! **Invariants.** Segments are read in the order of their numbers, without a gap. Segments hold a slot from
//! before they are read, or asked for, until their rows are in memory.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::StreamExt;
use sandur_base::Id;
use sandur_format::wal_segment::{Frame, FrameId};
use sandur_runtime::Lane;
use sandur_store::{Error as StoreError, Intent};

use crate::error::Error;
use crate::head::Inserted;
use crate::peers::AskedFrames;
use crate::upkeep::adoption::other_writers::OtherWriters;
use crate::upkeep::adoption::read_frame::{ReadFrame, WhenFull};
use crate::upkeep::adoption::read_slots::Speed;
use crate::view::{FrameAt, floor_of};
use crate::writing::wal::{self, frame};

/// How long a writer may wait for its next frame before it answers that there is none.
const ASK_WAIT_MAX: Duration = Duration::from_secs(1);

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
        /// Whether the writer itself said so.
        by_writer: bool,
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
            return Ok(CaughtUp::Yes { segments: 0, as_of, by_writer: false });
        }
        if floor > self.next {
            // A fence below the floor is void: the writer had moved its floor before.
            (self.next, self.fenced) = (floor, false);
        }
        let mut segments = 0_u64;
        if when_full == WhenFull::Stop && !self.fenced {
            match self.ask_writer(others, speed, &mut segments).await? {
                Asked::ToEnd(end) => return Ok(end),
                Asked::NoAnswer => {}
            }
        }
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
                    return Ok(CaughtUp::Yes { segments, as_of, by_writer: false });
                };
                if let Taken::OutOfMemory(bytes) = self.take(others, bytes, Source::Bucket(when_full)).await?
                {
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

    /// Takes the frames that the writer has in memory, up to the last one that is durable. The first call
    /// waits for a frame if there is none, and asks only where the WAL ends, so a tail that waits holds no
    /// slot.
    async fn ask_writer(
        &mut self,
        others: &OtherWriters,
        speed: Speed,
        segments: &mut u64,
    ) -> Result<Asked, Error> {
        let Some(peers) = &others.node.peers else { return Ok(Asked::NoAnswer) };
        let options = &others.writer.options;
        let (mut wait, mut most_bytes, mut slot) = (options.poll_interval.min(ASK_WAIT_MAX), 0, None);
        loop {
            let as_of = others.node.env.monotonic();
            let asked = AskedFrames { writer: self.incarnation, from: self.next, wait, most_bytes };
            let Some(answer) = peers.frames(asked).await else {
                return Ok(Asked::NoAnswer);
            };
            others.node.followed.note_announced(answer.catalog);
            if let Some(members) = others.writer.membership.members() {
                members.note_heard(self.incarnation);
            }
            let taken = answer.frames.len() as u64;
            for bytes in answer.frames {
                match self.take(others, bytes, Source::Writer).await? {
                    Taken::Rows => *segments += 1,
                    Taken::OutOfMemory(bytes) => return Ok(Asked::ToEnd(CaughtUp::OutOfMemory { bytes })),
                    Taken::Refused => return Ok(Asked::NoAnswer),
                }
            }
            if self.next == answer.end {
                let end = CaughtUp::Yes { segments: *segments, as_of, by_writer: true };
                return Ok(Asked::ToEnd(end));
            }
            if slot.is_none() {
                slot = others.slots.one(speed).await;
                (wait, most_bytes) = (Duration::ZERO, options.wal_frame_bytes);
            } else if taken == 0 {
                return Ok(Asked::NoAnswer);
            }
        }
    }

    /// Puts the rows of the next segment into the head.
    async fn take(&mut self, others: &OtherWriters, bytes: Bytes, source: Source) -> Result<Taken, Error> {
        let (incarnation, sequence) = (self.incarnation, self.next);
        let path = wal::path(incarnation, sequence);
        let frame = {
            let (path, bytes) = (path.clone(), bytes.clone());
            let open = move || frame::of_object(FrameId { incarnation, sequence }, &path, bytes);
            others.node.env.run_cpu(Lane::Query, open).await
        };
        let stamp = frame.as_ref().map_or(0, Frame::stamp);
        let read = match frame {
            Ok(frame) if frame::is_fence(&frame) => {
                self.fenced = true;
                return Ok(Taken::Rows);
            }
            Ok(frame) => match others.read_frame(incarnation, frame, &bytes, source.when_full()).await? {
                ReadFrame::Batches(batches) => Ok(batches),
                ReadFrame::OutOfMemory { bytes } => return Ok(Taken::OutOfMemory(bytes)),
                ReadFrame::Damaged(error) => Err(error.to_string()),
            },
            Err(error) => Err(error.to_string()),
        };
        let reserved = match (read, source) {
            (Ok(batches), _) => batches,
            (Err(error), Source::Writer) => {
                tracing::warn!(path, error, "a frame from its writer is damaged; the bucket is read instead");
                return Ok(Taken::Refused);
            }
            (Err(error), Source::Bucket(_)) => {
                tracing::error!(path, error, "acknowledged rows in a WAL segment are damaged");
                others.keep_damaged(&path, bytes).await;
                Vec::new()
            }
        };
        let at = FrameAt { incarnation, sequence, stamp };
        for inserted in others.node.views.insert(at, reserved) {
            if let Inserted::Logs(batch) = inserted {
                others.writer.followers.deliver(batch.batch());
            }
        }
        match source {
            Source::Writer => others.node.metrics.told_segments.inc(),
            Source::Bucket(_) => others.node.metrics.followed_segments.inc(),
        };
        self.next += 1;
        Ok(Taken::Rows)
    }
}

/// Where a segment was read, and what to do if its rows do not fit into memory.
#[derive(Clone, Copy)]
enum Source {
    Bucket(WhenFull),
    Writer,
}

impl Source {
    fn when_full(self) -> WhenFull {
        match self {
            Self::Bucket(when_full) => when_full,
            Self::Writer => WhenFull::Stop,
        }
    }
}

/// What became of a segment.
enum Taken {
    /// Its rows are in the head, or it is a fence.
    Rows,
    /// There is no memory for it; it needs this many bytes.
    OutOfMemory(u64),
    /// It is not the expected frame. The same frame is read from the bucket.
    Refused,
}

/// The result of asking a writer.
enum Asked {
    ToEnd(CaughtUp),
    NoAnswer,
}

async fn fetch(others: &OtherWriters, incarnation: Id, sequence: u64) -> Result<Option<Bytes>, StoreError> {
    others.node.store.find(&wal::path(incarnation, sequence), Intent::wal()).await
}
