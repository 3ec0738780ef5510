//! Objects that are written as they are made: parts of 8 MiB, a few in flight.
//!
//! Nothing is visible before [`Upload::finish`] returns, and then it is durable and its length was
//! checked. A task of its own does the sending; the writer only fills a buffer, so memory is bounded
//! by the parts in flight. An upload that is dropped or fails is aborted by its task, so that no
//! parts are left to be billed. Names must be unique: an upload overwrites.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::retry::{RetryContext, RetryFailure, RetryPolicy};
use object_store::{MultipartUpload, PutMode, PutMultipartOptions, PutPayload};
use sandur_base::units::MIB;
use sandur_base::{BoxFuture, Task};
use tokio::sync::{mpsc, oneshot};

use crate::classify::{Cause, Failure};
use crate::error::{Error, Place};
use crate::intent::{Class, Intent};
use crate::meter::Operation;
use crate::request::{Call, Requester};

/// Bytes of a part: saturates a connection, and 10,000 of them are 80 GiB.
pub(crate) const PART_BYTES: usize = 8 * MIB as usize;
/// Parts being sent at once, beside the one being filled and the one waiting.
const PARTS_IN_FLIGHT_MAX: usize = 3;

/// An object being written. Dropping it aborts it.
pub struct Upload {
    requester: Arc<Requester>,
    at: Place,
    pieces: VecDeque<Bytes>,
    buffered: usize,
    sender: Option<mpsc::Sender<Message>>,
    outcome: oneshot::Receiver<Result<u64, Error>>,
    sending: Option<Task<()>>,
    failed: Option<Error>,
}

enum Message {
    Part(PutPayload),
    /// The rest, after which the object is complete.
    Finish(PutPayload),
}

impl Upload {
    pub(crate) fn begin(requester: &Arc<Requester>, path: Path, intent: Intent) -> Self {
        let call = Call { intent, operation: Operation::Upload, path: path.as_ref(), bytes: 0 };
        let at = requester.place(&call);
        let (sender, messages) = mpsc::channel(1);
        let (tell, outcome) = oneshot::channel();
        let sending = Sending { requester: Arc::clone(requester), path, class: intent.class };
        let task = requester.env.spawn("store-upload", async move {
            // The writer may have gone away; then nobody needs the outcome.
            let _ = tell.send(sending.run(messages).await);
        });
        Self {
            requester: Arc::clone(requester),
            at,
            pieces: VecDeque::new(),
            buffered: 0,
            sender: Some(sender),
            outcome,
            sending: Some(task),
            failed: None,
        }
    }

    /// Adds bytes. Waits while all parts in flight are busy. After an error nothing was written
    /// and the upload is over.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.buffered += bytes.len();
        self.pieces.push_back(bytes);
        while self.buffered > PART_BYTES {
            self.check()?;
            let sender = self.sender.as_ref().expect("the sender leaves with the upload");
            let Ok(place) = sender.reserve().await else {
                return Err(self.learn_failure().await);
            };
            let part = cut(&mut self.pieces, PART_BYTES);
            self.buffered -= PART_BYTES;
            place.send(Message::Part(part));
        }
        self.check()
    }

    /// Completes the object and gives its length in bytes. Durable when this returns.
    pub async fn finish(mut self) -> Result<u64, Error> {
        self.check()?;
        let rest = cut(&mut self.pieces, self.buffered);
        let sender = self.sender.take().expect("the sender leaves with the upload");
        if sender.send(Message::Finish(rest)).await.is_err() {
            return Err(self.learn_failure().await);
        }
        drop(sender);
        let outcome = self.await_outcome().await;
        // Ended: there is nothing left to take over for anybody.
        self.sending = None;
        outcome
    }

    /// Gives the object up and removes what was sent.
    pub async fn abort(mut self) -> Result<(), Error> {
        self.sender = None;
        // Its outcome is that it was given up, which is what was asked for.
        let _ = self.await_outcome().await;
        self.sending = None;
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    async fn await_outcome(&mut self) -> Result<u64, Error> {
        let at = self.at.clone();
        let lost = |_| Err(Error::Internal { at, reason: "the upload's task ended early".to_owned() });
        (&mut self.outcome).await.unwrap_or_else(lost)
    }

    async fn learn_failure(&mut self) -> Error {
        let reason = "the upload ended before it was finished".to_owned();
        let at = self.at.clone();
        let outcome = self.await_outcome().await;
        let error = outcome.err().unwrap_or(Error::Internal { at, reason });
        self.failed = Some(error.clone());
        error
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // The task sees that the writer is gone, and cleans up.
        self.sender = None;
        if let Some(task) = self.sending.take() {
            self.requester.adopt(task);
        }
    }
}

/// Takes `length` bytes from the front of the pieces, without copying.
fn cut(pieces: &mut VecDeque<Bytes>, length: usize) -> PutPayload {
    let (mut part, mut missing) = (Vec::new(), length);
    while missing > 0 {
        let mut piece = pieces.pop_front().expect("the pieces hold what was counted");
        if piece.len() > missing {
            let rest = piece.split_off(missing);
            pieces.push_front(rest);
        }
        missing -= piece.len();
        part.push(piece);
    }
    PutPayload::from_iter(part)
}

/// The task's side.
struct Sending {
    requester: Arc<Requester>,
    path: Path,
    class: Class,
}

impl Sending {
    fn call(&self, bytes: u64) -> Call<'_> {
        let intent = Intent { class: self.class };
        Call { intent, operation: Operation::Upload, path: self.path.as_ref(), bytes }
    }

    fn failed(&self, cause: Cause, reason: &str) -> Error {
        Failure::new(cause, reason).into_error(self.requester.place(&self.call(0)), 1)
    }

    async fn run(self, mut messages: mpsc::Receiver<Message>) -> Result<u64, Error> {
        match messages.recv().await {
            None => Err(self.failed(Cause::Internal, "the upload was given up")),
            Some(Message::Finish(whole)) => self.put(whole).await,
            Some(Message::Part(first)) => self.send_parts(first, messages).await,
        }
    }

    /// An object of at most one part is one plain put.
    async fn put(&self, whole: PutPayload) -> Result<u64, Error> {
        let bytes = whole.content_length() as u64;
        let call = Call { operation: Operation::Put, ..self.call(bytes) };
        let attempt = || self.requester.store(&call, &self.path, whole.clone(), PutMode::Overwrite);
        self.requester.persist(call, attempt).await.map(|_| bytes)
    }

    async fn send_parts(&self, first: PutPayload, messages: mpsc::Receiver<Message>) -> Result<u64, Error> {
        let policy = self.requester.policy(self.class);
        let begin = || async {
            let retries = PartRetries { requester: Arc::downgrade(&self.requester), class: self.class };
            let options = PutMultipartOptions::default().with_retry_policy(Arc::new(retries));
            let begun = self.requester.objects.put_multipart_opts(&self.path, options);
            self.requester.limited(policy.first_byte, begun).await
        };
        let mut parts = self.requester.persist(self.call(0), begin).await?;
        let outcome = self.send_all(&mut parts, first, messages).await;
        if outcome.is_err() {
            // Best effort: the lifecycle rule of the bucket removes what this cannot.
            let aborted = self.requester.limited(policy.first_byte, parts.abort()).await;
            if let Err(failure) = aborted {
                tracing::debug!(path = %self.path, reason = failure.reason, "an upload could not be aborted");
            }
        }
        outcome
    }

    async fn send_all(
        &self,
        parts: &mut Box<dyn MultipartUpload>,
        first: PutPayload,
        mut messages: mpsc::Receiver<Message>,
    ) -> Result<u64, Error> {
        let mut total = 0;
        let mut in_flight: VecDeque<Task<Result<(), Failure>>> = VecDeque::new();
        let mut message = Some(Message::Part(first));
        loop {
            let (part, is_last) = match message {
                Some(Message::Part(part)) => (part, false),
                Some(Message::Finish(rest)) => (rest, true),
                None => return Err(self.failed(Cause::Internal, "the upload was given up")),
            };
            if in_flight.len() >= PARTS_IN_FLIGHT_MAX {
                self.land(in_flight.pop_front()).await?;
            }
            let bytes = part.content_length() as u64;
            total += bytes;
            if bytes > 0 {
                in_flight.push_back(self.send_part(parts.put_part(part), bytes));
            }
            if is_last {
                break;
            }
            message = messages.recv().await;
        }
        while !in_flight.is_empty() {
            self.land(in_flight.pop_front()).await?;
        }
        self.complete(parts, total).await?;
        Ok(total)
    }

    fn send_part(&self, sending: object_store::UploadPart, bytes: u64) -> Task<Result<(), Failure>> {
        let (requester, path, class) = (Arc::clone(&self.requester), self.path.clone(), self.class);
        let env = self.requester.env.clone();
        env.spawn("store-upload-part", async move {
            let intent = Intent { class };
            let call = Call { intent, operation: Operation::Upload, path: path.as_ref(), bytes };
            let policy = requester.policy(class);
            requester.budgets.earn(class);
            requester.meter.transferred(class, Operation::Upload, bytes);
            // Its retries happen inside, by `PartRetries`: the limit covers all of them.
            let limit = policy.deadline + policy.attempt_timeout(bytes);
            requester.once(&call, policy.deadline, requester.limited(limit, sending)).await
        })
    }

    async fn land(&self, part: Option<Task<Result<(), Failure>>>) -> Result<(), Error> {
        let Some(part) = part else { return Ok(()) };
        let landed = part.join().await;
        let outcome = landed.unwrap_or_else(|e| Err(Failure::new(Cause::Internal, e.to_string())));
        outcome.map_err(|failure| failure.into_error(self.requester.place(&self.call(0)), 1))
    }

    /// Completes the object, and believes it only when the store shows the right length: the
    /// answer to a completion may be lost, and names are unique, so what is there is ours.
    async fn complete(&self, parts: &mut Box<dyn MultipartUpload>, total: u64) -> Result<(), Error> {
        let call = self.call(0);
        let policy = self.requester.policy(self.class);
        let limit = policy.attempt_timeout(total) + policy.deadline;
        let completing = self.requester.limited(limit, parts.complete());
        let completed = self.requester.once(&call, policy.deadline, completing).await;
        let shown = self.requester.persist(call, || self.requester.inspect(self.class, &self.path)).await;
        match (completed, shown) {
            (_, Ok(Some(meta))) if meta.size == total => {
                let durable = self.requester.make_durable(&self.path).await;
                durable.map_err(|f| f.into_error(self.requester.place(&call), 1))
            }
            (Err(failure), _) => Err(failure.into_error(self.requester.place(&call), 1)),
            (Ok(_), Ok(found)) => {
                let found = found.map_or(0, |meta| meta.size);
                Err(Error::Length { at: self.requester.place(&call), expected: total, found })
            }
            (Ok(_), Err(error)) => Err(error),
        }
    }
}

/// Repeats single parts below the upload, at our pace and from our budget.
#[derive(Clone)]
struct PartRetries {
    requester: std::sync::Weak<Requester>,
    class: Class,
}

impl std::fmt::Debug for PartRetries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartRetries").field("class", &self.class).finish_non_exhaustive()
    }
}

impl PartRetries {
    async fn decide(&self, context: RetryContext) -> bool {
        let Some(requester) = self.requester.upgrade() else { return false };
        let policy = requester.policy(self.class);
        let attempt = u32::try_from(context.attempt).unwrap_or(u32::MAX);
        let passes = match context.failure {
            RetryFailure::Status(status) => {
                status.is_success() || status.is_server_error() || matches!(status.as_u16(), 408 | 429)
            }
            _ => true,
        };
        if !passes || attempt >= policy.attempts_max || context.elapsed > policy.deadline {
            return false;
        }
        let bound = policy.pause_bound(attempt - 1).as_micros() as u64;
        let pause = Duration::from_micros(500 + requester.env.random_below(bound.max(1)));
        requester.env.sleep(pause).await;
        requester.budgets.pay(self.class, requester.env.monotonic())
    }
}

impl RetryPolicy for PartRetries {
    fn retry<'a, 'f>(&'a self, context: RetryContext) -> BoxFuture<'f, bool>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(self.decide(context))
    }
}
