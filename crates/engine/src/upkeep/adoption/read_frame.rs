//! Decodes the WAL frames of other writers, dead or alive. Memory is reserved first.
//!
//! The memory of a decoded batch is known before decoding ([`Frame::memory_bytes`]). The memory of its
//! rows in a head is known afterwards, and is usually larger.

use bytes::Bytes;
use sandur_base::Id;
use sandur_format::Error as FormatError;
use sandur_format::wal_segment::Frame;
use sandur_memory::Reservation;
use sandur_model::Batch;
use sandur_runtime::Lane;

use crate::error::Error;
use crate::head::push_bytes;
use crate::upkeep::adoption::other_writers::OtherWriters;
use crate::writing::flush::outcome::{Ending, Flushed};
use crate::writing::wal::frame;

/// What to do when a writer's rows do not fit into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// Read no further: the writer is alive and flushes its rows itself.
    Stop,
    /// Flush the rows that were read: the writer is dead and fenced or about to be.
    Flush,
    /// Flush the rows that were read of this writer and of earlier ones: all are dead, and no other
    /// process flushes them.
    FlushAll,
}

/// The batches of a frame.
pub(crate) enum ReadFrame {
    /// All batches, each with the reservation of its memory.
    Batches(Vec<(Batch, Reservation)>),
    /// A batch cannot be decoded.
    Damaged(FormatError),
    /// There is no memory for all batches; the first one that does not fit needs this many bytes.
    OutOfMemory {
        /// Bytes of the batch.
        bytes: u64,
    },
}

impl OtherWriters {
    /// Decodes the batches of a frame of another writer, which was read from `source`.
    pub(super) async fn read_frame(
        &self,
        incarnation: Id,
        mut frame: Frame,
        source: &Bytes,
        when_full: WhenFull,
    ) -> Result<ReadFrame, Error> {
        let mut batches = Vec::with_capacity(frame.len());
        for record in 0..frame.len() {
            let asked = frame.memory_bytes(record);
            let Some(mut memory) = self.reserve_for(incarnation, asked, when_full).await? else {
                return Ok(ReadFrame::OutOfMemory { bytes: asked });
            };
            let source = source.clone();
            let decode = move || {
                let batch = frame::batch(&frame, record, &source);
                (frame, batch)
            };
            let (returned, batch) = self.node.env.run_cpu(Lane::Background, decode).await;
            frame = returned;
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return Ok(ReadFrame::Damaged(error)),
            };
            let needed = push_bytes(&batch);
            match needed.checked_sub(memory.bytes()) {
                None => memory.shrink(memory.bytes() - needed),
                Some(missing) => match self.reserve_for(incarnation, missing, when_full).await? {
                    Some(more) => memory.absorb(more),
                    None => return Ok(ReadFrame::OutOfMemory { bytes: needed }),
                },
            }
            batches.push((batch, memory));
        }
        Ok(ReadFrame::Batches(batches))
    }

    /// Reserves memory for rows of another writer. Returns `None` when there is none and the writer
    /// flushes itself.
    async fn reserve_for(
        &self,
        incarnation: Id,
        bytes: u64,
        when_full: WhenFull,
    ) -> Result<Option<Reservation>, Error> {
        match when_full {
            WhenFull::Flush => Ok(Some(self.reserve_or_flush(&[incarnation], bytes).await?)),
            WhenFull::FlushAll => {
                let read = self.node.views.incarnations_until(incarnation);
                Ok(Some(self.reserve_or_flush(&read, bytes).await?))
            }
            WhenFull::Stop => Ok(self.memory.reserve(incarnation, bytes)),
        }
    }

    /// Reserves memory of the write budget for rows of a dead writer. While the budget is exhausted,
    /// flushes the heads of the given dead writers, one writer after the other.
    async fn reserve_or_flush(&self, dead: &[Id], bytes: u64) -> Result<Reservation, Error> {
        let budget = &self.writer.options.write_budget;
        let (mut memory, mut failed) = (budget.reserve(bytes), None);
        for incarnation in dead {
            if memory.is_ok() {
                break;
            }
            self.node.views.seal(*incarnation);
            for head in self.node.views.heads_of(*incarnation) {
                if let Flushed::InPart { failed: Some(reason) } =
                    self.writer.flush_head(&head, Ending::Open).await?
                {
                    failed.get_or_insert(reason);
                }
            }
            memory = budget.reserve(bytes);
        }
        memory.map_err(|refusal| failed.unwrap_or_else(|| refusal.into()))
    }
}
