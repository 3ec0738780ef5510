//! Pushes: reserve memory, write to the WAL, acknowledge.
//!
//! **Invariants.** The memory of a batch is reserved before the batch is encoded for the WAL. A batch
//! that is too large for one push is stored in parts, in order, and acknowledged when all of them are
//! durable. Rows of a failed push that the client sends again are stored once. Conflicts with stored
//! samples are found when the batch enters the head, where pushes have an order, so that of two
//! concurrent pushes one gets the conflict.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::Id;
use sandur_format::Error as FormatError;
use sandur_format::wal_segment::{ARENA_BYTES_MAX, Record};
use sandur_memory::Reservation;
use sandur_model::{Batch, MILLISECOND_NS, SampleConflicts};
use sandur_runtime::Lane;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::head::push_bytes;
use crate::writing::push_parts::{SplitBatch, cutting_bytes};
use crate::writing::wal::{Settled, Wal};
use crate::writing::writer::Writer;

/// Text bytes, lines or samples of a batch from which it is prepared for the WAL on the CPU pool: that
/// takes longer than handing a job to another thread and back.
const SMALL_BYTES: usize = 64 << 10;
const SMALL_LINES: usize = 1_000;
const SMALL_SAMPLES: usize = 4_000;
/// How often a push that waits for memory tries again without a notification.
const MEMORY_LOOK: Duration = Duration::from_millis(100);
/// How much later a push checks for a stall than the committer. A push that is in no frame thus learns
/// from the committer that nothing of it is stored, which the push itself would not know.
const COMMITTER_LEAD: Duration = Duration::from_millis(100);
/// Timestamps closer than a day to the ends of the range would be in windows that cannot be represented.
const TIMESTAMP_MARGIN_NS: i64 = sandur_model::DAY_NS;
/// The longest line in bytes. Limits of tenants are far below.
const LINE_BYTES_MAX: u32 = 64 << 20;
/// A part takes this fraction of what one push may take: while one becomes durable, the next is prepared.
const PARTS_OF_PUSH: u64 = 2;

/// The receiver of the outcome of a push that is in the queue of the WAL.
type Outcome = oneshot::Receiver<Settled>;

/// The queued parts of a push. The WAL settles them in order.
struct PartsUnderWay {
    split: Arc<SplitBatch>,
    waiting: VecDeque<Outcome>,
    /// The number of parts that are stored.
    settled: usize,
    /// The conflicts of these parts.
    conflicts: SampleConflicts,
}

impl PartsUnderWay {
    fn settle(&mut self, conflicts: SampleConflicts) {
        self.split.add_conflicts(self.settled, conflicts, &mut self.conflicts);
        self.settled += 1;
    }
}

impl Writer {
    /// Stores a batch. Drops `held`, the caller's memory for the batch, once its own memory is reserved.
    pub(crate) async fn push(&self, batch: Batch, held: impl Send) -> Settled {
        self.push_into(None, batch, held).await
    }

    /// Stores a batch under this incarnation, or fails.
    pub(crate) async fn push_under(&self, incarnation: Id, batch: Batch) -> Settled {
        self.push_into(Some(incarnation), batch, ()).await
    }

    async fn push_into(&self, only: Option<Id>, batch: Batch, held: impl Send) -> Settled {
        let (env, metrics) = (&self.node.env, &self.node.metrics);
        let started = env.monotonic();
        let outcome = self.push_uncounted(only, batch, held).await;
        match &outcome {
            Ok(_) => {
                let waited = env.monotonic().saturating_sub(started);
                metrics.push_seconds.observe(waited.as_secs_f64());
            }
            Err(_) => drop(metrics.pushes_failed.inc()),
        }
        outcome
    }

    async fn push_uncounted(&self, only: Option<Id>, batch: Batch, held: impl Send) -> Settled {
        if batch.is_empty() {
            return Ok(SampleConflicts::default());
        }
        self.admits_pushes()?;
        // The batch goes into this WAL or nowhere, whatever incarnation follows meanwhile.
        let wal = self.wal();
        if let Some(incarnation) = only.filter(|only| *only != wal.incarnation()) {
            return Err(Error::Fenced { incarnation });
        }
        check_bounds(&batch)?;
        let (bytes, limit) = (push_bytes(&batch), self.options.push_bytes_max());
        if bytes <= limit && arena_bytes(&batch) <= ARENA_BYTES_MAX {
            return self.push_whole(&wal, batch, bytes, held).await;
        }
        let most = limit / PARTS_OF_PUSH;
        let cutting = self.reserve(cutting_bytes(&batch, most)).await?;
        let (arena, text) = (arena_bytes(&batch), text_bytes(&batch));
        let split = self.node.env.run_cpu(Lane::Query, move || SplitBatch::new(batch, most)).await;
        drop(cutting);
        let of_parts = split.bytes();
        let bytes = of_parts.iter().sum::<u64>() + text;
        if bytes <= limit && arena <= ARENA_BYTES_MAX {
            return self.push_whole(&wal, split.into_whole(), bytes, held).await;
        }
        match of_parts.iter().copied().find(|bytes| *bytes > limit) {
            Some(bytes) => Err(Error::BatchTooLarge { bytes, limit }),
            None => self.push_parts(&wal, split, of_parts, held).await,
        }
    }

    async fn push_whole(&self, wal: &Wal, batch: Batch, bytes: u64, held: impl Send) -> Settled {
        let memory = self.reserve(bytes).await?;
        drop(held);
        let (batch, record) = self.prepare(batch).await?;
        self.acknowledged(wal, wal.enqueue(batch, record, memory)?).await
    }

    /// Stores parts, whose sizes in bytes are `of_parts`, one after the other. The caller's reservation
    /// `held` pays for the batch that they are cut from.
    async fn push_parts(&self, wal: &Wal, split: SplitBatch, of_parts: Vec<u64>, held: impl Send) -> Settled {
        self.node.metrics.pushes_in_parts.inc();
        let mut parts = PartsUnderWay {
            split: Arc::new(split),
            waiting: VecDeque::new(),
            settled: 0,
            conflicts: SampleConflicts::default(),
        };
        let mut is_begun = false;
        let in_part = |is_begun: bool, error: Error| match is_begun {
            true => Error::InPart { reason: error.to_string(), kind: error.kind() },
            false => error,
        };
        for (number, bytes) in of_parts.into_iter().enumerate() {
            let queued = self.push_part(wal, number, bytes, &mut parts).await;
            parts.waiting.push_back(queued.map_err(|error| in_part(is_begun, error))?);
            is_begun = true;
        }
        while let Some(outcome) = parts.waiting.pop_front() {
            let settled = self.acknowledged(wal, outcome).await.map_err(|error| in_part(is_begun, error))?;
            parts.settle(settled);
        }
        drop(held);
        Ok(parts.conflicts)
    }

    /// Queues a part in the WAL. While there is no memory for it, waits for earlier parts to become durable.
    async fn push_part(
        &self,
        wal: &Wal,
        number: usize,
        bytes: u64,
        parts: &mut PartsUnderWay,
    ) -> Result<Outcome, Error> {
        let memory = loop {
            if let Ok(memory) = self.options.write_budget.reserve(bytes) {
                break memory;
            }
            match parts.waiting.pop_front() {
                Some(outcome) => parts.settle(self.acknowledged(wal, outcome).await?),
                None => break self.reserve(bytes).await?,
            }
        };
        let split = Arc::clone(&parts.split);
        let part = self.node.env.run_cpu(Lane::Query, move || split.part(number)).await;
        let (part, record) = self.prepare(part).await?;
        wal.enqueue(part, record, memory)
    }

    /// Waits until the push is acknowledged, until its timeout, or until the WAL reports that it is stalled.
    async fn acknowledged(&self, wal: &Wal, mut outcome: Outcome) -> Settled {
        let (env, patience) = (&self.node.env, self.options.push_timeout);
        let gives_up_at = env.monotonic() + patience;
        loop {
            let now = env.monotonic();
            let until = (wal.status().next_look(now) + COMMITTER_LEAD).min(gives_up_at);
            match env.timeout(until.saturating_sub(now), &mut outcome).await {
                Some(Ok(outcome)) => return outcome,
                Some(Err(_)) => return Err(wal.status().end_reason()),
                None => wal.check_waiting(env.monotonic())?,
            }
            if env.monotonic() >= gives_up_at {
                let reason = wal.status().trouble().unwrap_or_else(|| "the WAL is slow".to_owned());
                return Err(Error::AckTimeout { waited: patience, reason });
            }
        }
    }

    /// Reserves the memory of a push. While a head is flushed, and longer while the heads are full, the
    /// push waits, so that clients are slowed down without retries. The wait is bounded; after it the
    /// push is refused.
    async fn reserve(&self, bytes: u64) -> Result<Reservation, Error> {
        let deadline = self.node.env.monotonic() + self.options.push_wait;
        self.flusher.admission().admit(&self.node.env, bytes).await;
        loop {
            let freed = self.flush_signal.freed();
            match self.options.write_budget.reserve(bytes) {
                Ok(memory) => return Ok(memory),
                Err(refusal) if self.node.env.monotonic() >= deadline => {
                    return Err(match self.flush_signal.failing_for(self.node.env.monotonic()) {
                        Some(_) => Error::FlushesFail(refusal),
                        None => Error::HeadsFull(refusal),
                    });
                }
                Err(_) => self.flush_signal.press(),
            }
            if self.is_closing() {
                return Err(Error::ShuttingDown);
            }
            self.admits_pushes()?;
            // Queries that end release memory too, without a notification, so the wait is short.
            let _ = self.node.env.timeout(MEMORY_LOOK, freed).await;
        }
    }

    /// Returns the batch without its compressed form, and its record for the WAL.
    async fn prepare(&self, mut batch: Batch) -> Result<(Batch, Record), Error> {
        let (arena, rows_max) = match &batch {
            Batch::Logs(batch) => (&batch.arena, SMALL_LINES),
            Batch::Metrics(batch) => (&batch.arena, SMALL_SAMPLES),
        };
        let has_small_text = arena.compressed.is_some() || arena.bytes.len() < SMALL_BYTES;
        let small = has_small_text && batch.rows() < rows_max;
        let prepare = move || {
            let record = Record::of(&batch);
            match &mut batch {
                Batch::Logs(batch) => batch.arena.compressed = None,
                Batch::Metrics(batch) => batch.drop_text(),
            }
            (batch, record)
        };
        let (batch, record) =
            if small { prepare() } else { self.node.env.run_cpu(Lane::Query, prepare).await };
        Ok((batch, record.map_err(|error| not_recorded(&error))?))
    }
}

/// Bytes of the largest part that the WAL record keeps in one piece, as far as known before encoding.
fn arena_bytes(batch: &Batch) -> usize {
    match batch {
        Batch::Logs(batch) => batch.arena.bytes.len(),
        Batch::Metrics(batch) => batch.arena.bytes.len().max(batch.values.len() * size_of::<f64>()),
    }
}

/// Bytes of the text that a batch keeps unchanged, in memory and in the WAL.
fn text_bytes(batch: &Batch) -> u64 {
    let arena = match batch {
        Batch::Logs(batch) => &batch.arena,
        Batch::Metrics(batch) => &batch.arena,
    };
    let compressed = arena.compressed.as_ref().map_or(arena.bytes.len(), |(_, bytes)| bytes.len());
    (arena.bytes.len() + compressed) as u64
}

/// Converts the error of encoding a batch's record.
fn not_recorded(error: &FormatError) -> Error {
    match error {
        FormatError::TooLarge { found, limit, .. } => Error::BatchTooLarge { bytes: *found, limit: *limit },
        error => Error::Internal(error.to_string()),
    }
}

fn check_bounds(batch: &Batch) -> Result<(), Error> {
    let (earliest, latest) = (i64::MIN + TIMESTAMP_MARGIN_NS, i64::MAX - TIMESTAMP_MARGIN_NS);
    let batch = match batch {
        Batch::Logs(batch) => batch,
        Batch::Metrics(batch) => {
            let (earliest, latest) = (earliest / MILLISECOND_NS, latest / MILLISECOND_NS);
            let histograms = batch.histograms.iter().map(|sample| sample.timestamp);
            let exemplars = batch.exemplars.iter().map(|of| of.exemplar.timestamp);
            let mut times = batch.timestamps.iter().copied().chain(histograms).chain(exemplars);
            return match times.find(|at| *at < earliest || *at > latest) {
                Some(at) => Err(Error::Timestamp { timestamp: at.saturating_mul(MILLISECOND_NS) }),
                None => Ok(()),
            };
        }
    };
    for entry in batch.streams.iter().flat_map(|stream| &stream.entries) {
        let timestamp = entry.timestamp;
        if timestamp < earliest || timestamp > latest {
            return Err(Error::Timestamp { timestamp });
        }
        if entry.line.len > LINE_BYTES_MAX {
            let (bytes, limit) = (u64::from(entry.line.len), u64::from(LINE_BYTES_MAX));
            return Err(Error::BatchTooLarge { bytes, limit });
        }
    }
    Ok(())
}
