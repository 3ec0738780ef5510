//! The WAL in a bucket: one object per frame, by verified create, several at once.
//!
//! A frame is cut when it is full, or when [`Pace`] says so: at once when nothing else is under way,
//! later when that saves requests, which a bucket bills.
//!
//! **Order.** Frames are settled strictly in the order of their numbers, whatever order the store
//! finishes them in. A frame after one that never becomes durable must not be acknowledged, because
//! recovery reads up to the first missing number. A frame that fails is written again, the same bytes
//! under the same name, until it is durable or the number turns out to be taken. In the latter case
//! another process has fenced this incarnation, and frames from that number on do not count.
//!
//! **Stalls.** When the first frame is not durable in time ([`super::status`]), pushes that are in no
//! frame yet are refused, and nothing of them is stored. Writing of the frames continues.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{FuturesOrdered, StreamExt};
use sandur_base::{BoxFuture, Id};
use sandur_runtime::{Backoff, Lane};
use sandur_store::{Created, Intent, Store};
use tokio::sync::mpsc;

use super::committing::{self, Batches, Context, End, Push};
use super::frame;
use super::group::{Group, Replies};
use super::pace::{Pace, PaceOptions};
use crate::error::Error;

/// The pauses before a frame is written again.
const WRITES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
/// How long a small frame may take: longer than a request that hangs (8 s) and its retry, shorter than
/// the 10 s after which Promtail and Alloy give up a push.
const FRAME_PATIENCE: Duration = Duration::from_secs(9);
/// How many deletes of WAL segments run at once.
const DELETES_IN_FLIGHT: usize = 8;

/// Writes the frames of one incarnation.
pub(super) struct Committer {
    context: Arc<Context>,
    next: u64,
    gathered: Group,
    pace: Pace,
}

/// A frame whose write has ended.
struct Written {
    sequence: u64,
    stamp: u64,
    outcome: Outcome,
    batches: Batches,
    replies: Replies,
}

enum Outcome {
    Durable { bytes: Bytes },
    Fenced,
}

impl Committer {
    pub(super) fn new(context: Arc<Context>) -> Self {
        let options = &context.options;
        let limits = PaceOptions {
            per_second: options.wal_requests_per_second,
            burst: options.wal_requests_burst,
            linger: options.wal_linger,
        };
        let pace = Pace::new(limits, context.env.monotonic());
        Self { context, next: 0, gathered: Group::default(), pace }
    }

    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Push>) -> End {
        let context = Arc::clone(&self.context);
        let options = &context.options;
        let mut in_flight: FuturesOrdered<BoxFuture<'static, Written>> = FuturesOrdered::new();
        let mut open = true;
        loop {
            self.refuse_if_stalled();
            let may_cut = !self.gathered.is_empty() && in_flight.len() < options.wal_puts_in_flight;
            let full = self.gathered.bytes() >= options.wal_frame_bytes;
            let now = context.env.monotonic();
            let due = self.pace.due(now, in_flight.len());
            let next_look = context.status.next_look(now);
            if may_cut && (full || !open || now >= due) {
                self.pace.cut(now, full);
                in_flight.push_back(self.cut());
                continue;
            }
            if !open && self.gathered.is_empty() && in_flight.is_empty() {
                return End::Closed { next: self.next };
            }
            tokio::select! {
                biased;
                Some(written) = in_flight.next(), if !in_flight.is_empty() => {
                    if self.settle(written).await {
                        if in_flight.is_empty() {
                            self.pace.landed(context.env.monotonic());
                        }
                        continue;
                    }
                    drop(in_flight);
                    return self.end_fenced(queue);
                }
                push = queue.recv(), if open && !full => match push {
                    Some(push) => self.gather(push, &mut queue),
                    None => open = false,
                },
                () = context.sealed.notified() => {
                    drop(in_flight);
                    self.fence();
                    return self.end_fenced(queue);
                }
                () = context.env.sleep(due.saturating_sub(now)), if may_cut => {}
                () = context.env.sleep(next_look.saturating_sub(now)), if !self.gathered.is_empty() => {}
            }
        }
    }

    fn gather(&mut self, push: Push, queue: &mut mpsc::Receiver<Push>) {
        let before = self.gathered.pushes();
        self.gathered.add(push);
        while self.gathered.bytes() < self.context.options.wal_frame_bytes {
            let Ok(push) = queue.try_recv() else { break };
            self.gathered.add(push);
        }
        self.pace.gathered(self.context.env.monotonic(), self.gathered.pushes() - before);
    }

    /// Refuses the pushes that are in no frame yet when no frame becomes durable.
    fn refuse_if_stalled(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        if let Err(stalled) = self.context.check() {
            std::mem::take(&mut self.gathered).replies.fail(&stalled);
            self.pace.given_up();
        }
    }

    fn cut(&mut self) -> BoxFuture<'static, Written> {
        let (sequence, group) = (self.next, std::mem::take(&mut self.gathered));
        self.next += 1;
        let stamp = self.context.next_stamp(&group.records);
        let context = Arc::clone(&self.context);
        context.status.begun((sequence, group.bytes()), context.env.monotonic(), FRAME_PATIENCE);
        Box::pin(async move { write(&context, (sequence, stamp), group).await })
    }

    /// Applies and acknowledges a durable frame. Returns false when the incarnation was fenced.
    async fn settle(&mut self, written: Written) -> bool {
        let context = &self.context;
        let Written { sequence, stamp, outcome, batches, replies } = written;
        match outcome {
            Outcome::Durable { bytes } => {
                let length = bytes.len() as u64;
                context.metrics.wal_frames.inc();
                context.metrics.wal_bytes.inc_by(length);
                context.status.durable(sequence, context.env.monotonic());
                context.recent.add(sequence, bytes);
                if let Some(hints) = &context.options.hints {
                    hints.announce_segment(context.incarnation, sequence + 1);
                }
                let conflicts = context.apply_where_due((sequence, stamp), length, batches).await;
                replies.acknowledge(conflicts, &context.metrics);
                true
            }
            Outcome::Fenced => {
                replies.fail(&self.fence());
                false
            }
        }
    }

    /// Stops acknowledging under this incarnation for good. Returns the error for its pushes.
    fn fence(&self) -> Error {
        let context = &self.context;
        let refusal = Error::Fenced { incarnation: context.incarnation };
        tracing::error!(%refusal, next = self.next, "this incarnation ends");
        context.metrics.fenced.inc();
        context.status.end(refusal.clone());
        refusal
    }

    /// Refuses all waiting pushes. Frames in flight after the fence may still be written, but they are
    /// void. Their replies are dropped, which tells their waiters that they got no acknowledgement.
    fn end_fenced(self, mut queue: mpsc::Receiver<Push>) -> End {
        self.context.views.stamps().fenced();
        let refusal = self.context.status.end_reason();
        let mut waiting = self.gathered;
        queue.close();
        while let Ok(push) = queue.try_recv() {
            waiting.add(push);
        }
        waiting.replies.fail(&refusal);
        End::Fenced
    }
}

async fn write(context: &Arc<Context>, (sequence, stamp): (u64, u64), group: Group) -> Written {
    let incarnation = context.incarnation;
    let Group { records, batches, replies, .. } = group;
    let encode = move || frame::encode_whole(incarnation, (sequence, stamp), &records);
    let bytes = context.env.run_cpu(Lane::Query, encode).await;
    let outcome = create(context, sequence, bytes).await;
    Written { sequence, stamp, outcome, batches, replies }
}

async fn create(context: &Context, sequence: u64, bytes: Bytes) -> Outcome {
    let path = committing::path(context.incarnation, sequence);
    let started = context.env.monotonic();
    let (mut pauses, mut is_logged) = (WRITES.pauses(), false);
    loop {
        match context.store.create(&path, bytes.clone(), Intent::wal()).await {
            Ok(Created::New) => {
                let waited = context.env.monotonic().saturating_sub(started);
                context.metrics.wal_seconds.observe(waited.as_secs_f64());
                return Outcome::Durable { bytes };
            }
            Ok(Created::Exists(_)) => return Outcome::Fenced,
            Err(error) => {
                // `Status` logs how long this lasts, for all segments together.
                match std::mem::replace(&mut is_logged, true) {
                    false => tracing::warn!(path, %error, "a WAL segment is written again and again"),
                    true => tracing::debug!(path, %error, "a WAL segment is written again"),
                }
                context.metrics.wal_failures.inc();
                context.status.set_trouble(Some(error.to_string()));
                context.env.sleep(pauses.after_failure_with_jitter(&context.env)).await;
            }
        }
    }
}

/// Deletes segments. One that cannot be deleted now stays below the floor, where it is not read, until
/// garbage collection deletes it.
pub(crate) async fn delete_segments(store: &Store, incarnation: Id, sequences: Range<u64>) {
    let deletes = sequences.map(|sequence| async move {
        let path = committing::path(incarnation, sequence);
        if let Err(error) = store.delete(&path, Intent::gc()).await {
            tracing::warn!(path, %error, "a flushed WAL segment could not be deleted");
        }
    });
    futures_util::stream::iter(deletes).buffer_unordered(DELETES_IN_FLIGHT).collect::<Vec<()>>().await;
}
