//! Writes objects whose contents arrive in pieces. An object of up to 16 MiB is sent in one request;
//! larger ones are sent in parts of 8 MiB, a few at a time.
//!
//! Nothing is visible before [`Upload::finish`] returns; then the object is durable and its length was
//! checked. A separate task sends the parts, and the writer only fills a buffer, so the parts in flight
//! bound the memory. The task aborts an upload that is dropped or fails, so that no parts remain to be
//! billed. Names must be unique, because an upload overwrites.
//!
//! Over a bucket this crate numbers the parts itself, so that a failed part or a failed completion is
//! retried instead of failing the object.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, MultipartUpload, PutMode, PutMultipartOptions, PutPayload};
use sandur_runtime::Task;
use tokio::sync::{mpsc, oneshot};

use crate::call::Call;
use crate::cause::Cause;
use crate::classify::Failure;
use crate::error::{Error, Place};
use crate::intent::Intent;
use crate::operation::Operation;
use crate::request::{Requester, nowhere};

/// Parts in flight, in addition to the one being filled and the one waiting.
const PARTS_IN_FLIGHT_MAX: usize = 3;

/// An object that is being written. Dropping it aborts the upload.
pub struct Upload {
    requester: Arc<Requester>,
    at: Place,
    pieces: VecDeque<Bytes>,
    buffered: usize,
    is_in_parts: bool,
    sender: Option<mpsc::Sender<Message>>,
    outcome: oneshot::Receiver<Result<u64, Error>>,
    sending: Option<Task<()>>,
    failed: Option<Error>,
}

enum Message {
    Part(PutPayload),
    /// The last part, which completes the object.
    Finish(PutPayload),
}

impl Upload {
    pub(crate) fn begin(requester: &Arc<Requester>, path: Path, intent: Intent) -> Self {
        let call = Call { intent: &intent, operation: Operation::Upload, path: path.as_ref(), bytes: 0 };
        let at = requester.place(&call);
        let (sender, messages) = mpsc::channel(1);
        let (sender_of_outcome, outcome) = oneshot::channel();
        let sending = Arc::new(Sending { requester: Arc::clone(requester), path, intent });
        let task = requester.env.spawn("store-upload", async move {
            // The writer may have gone away.
            let _ = sender_of_outcome.send(sending.run(messages).await);
        });
        Self {
            requester: Arc::clone(requester),
            at,
            pieces: VecDeque::new(),
            buffered: 0,
            is_in_parts: false,
            sender: Some(sender),
            outcome,
            sending: Some(task),
            failed: None,
        }
    }

    /// Adds bytes. Waits while all parts in flight are busy. After an error nothing was written, and the
    /// upload has ended.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.buffered += bytes.len();
        self.pieces.push_back(bytes);
        let whole_max = self.requester.whole_upload_max;
        let part_bytes = whole_max / 2;
        while self.buffered > if self.is_in_parts { part_bytes } else { whole_max } {
            self.is_in_parts = true;
            self.check()?;
            let sender = self.sender.as_ref().expect("only `finish` and `abort` take the sender");
            let Ok(place) = sender.reserve().await else {
                return Err(self.learn_failure().await);
            };
            let part = cut(&mut self.pieces, part_bytes);
            self.buffered -= part_bytes;
            place.send(Message::Part(part));
        }
        self.check()
    }

    /// Completes the object; returns its length in bytes. The object is durable when this returns.
    pub async fn finish(mut self) -> Result<u64, Error> {
        self.check()?;
        let rest = cut(&mut self.pieces, self.buffered);
        let sender = self.sender.take().expect("only `finish` and `abort` take the sender");
        if sender.send(Message::Finish(rest)).await.is_err() {
            return Err(self.learn_failure().await);
        }
        drop(sender);
        let outcome = self.await_outcome().await;
        // The task has ended, so no clean-up is needed.
        self.sending = None;
        outcome
    }

    /// Aborts the upload and removes the parts that were sent.
    pub async fn abort(mut self) -> Result<(), Error> {
        self.sender = None;
        // The outcome is the error "the upload was given up", which is expected.
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
        // The task notices that the sender is gone, and cleans up.
        self.sender = None;
        if let Some(task) = self.sending.take() {
            self.requester.adopt(task);
        }
    }
}

/// Removes `length` bytes from the front of the pieces, without copying.
fn cut(pieces: &mut VecDeque<Bytes>, length: usize) -> PutPayload {
    let (mut part, mut missing) = (Vec::new(), length);
    while missing > 0 {
        let mut piece = pieces.pop_front().expect("the pieces contain the counted bytes");
        if piece.len() > missing {
            let rest = piece.split_off(missing);
            pieces.push_front(rest);
        }
        missing -= piece.len();
        part.push(piece);
    }
    PutPayload::from_iter(part)
}

/// The state of the sending task.
struct Sending {
    requester: Arc<Requester>,
    path: Path,
    intent: Intent,
}

/// The parts of an upload, for the interface of the store.
enum Parts {
    /// Numbered by this crate, so that parts and completion can be retried.
    Numbered { store: Arc<dyn MultipartStore>, at: Path, id: MultipartId, sent: Vec<PartId> },
    /// Numbered by `object_store`, so that each is sent once: local directories and stores that the
    /// caller provides.
    Plain(Box<dyn MultipartUpload>),
}

type UploadedPart = Result<Option<PartId>, Error>;

impl Sending {
    fn call(&self, bytes: u64) -> Call<'_> {
        Call { intent: &self.intent, operation: Operation::Upload, path: self.path.as_ref(), bytes }
    }

    fn failed(&self, failure: Failure) -> Error {
        failure.into_error(self.requester.place(&self.call(0)), 1)
    }

    fn given_up(&self) -> Error {
        self.failed(Failure::new(Cause::Internal, "the upload was given up"))
    }

    async fn run(self: Arc<Self>, mut messages: mpsc::Receiver<Message>) -> Result<u64, Error> {
        match messages.recv().await {
            None => Err(self.given_up()),
            Some(Message::Finish(whole)) => self.put(whole).await,
            Some(Message::Part(first)) => self.send_parts(first, messages).await,
        }
    }

    /// Sends an object that fits in one request.
    async fn put(&self, whole: PutPayload) -> Result<u64, Error> {
        let bytes = whole.content_length() as u64;
        let call = Call { operation: Operation::Put, ..self.call(bytes) };
        let attempt = || self.requester.store(&call, &self.path, whole.clone(), PutMode::Overwrite);
        self.requester.persist(call, attempt).await.map(|_| bytes)
    }

    async fn send_parts(
        self: &Arc<Self>,
        first: PutPayload,
        messages: mpsc::Receiver<Message>,
    ) -> Result<u64, Error> {
        let mut parts = self.begin().await?;
        let outcome = self.send_all(&mut parts, first, messages).await;
        if outcome.is_err() {
            self.abort(parts).await;
        }
        outcome
    }

    async fn begin(&self) -> Result<Parts, Error> {
        let requester = &self.requester;
        let limit = requester.policy(self.intent.class).first_byte;
        let Some(multipart) = &requester.multipart else {
            let attempt = || async {
                requester.prepare(&self.call(0), &self.path).await?;
                let begun = requester.objects.put_multipart_opts(&self.path, PutMultipartOptions::default());
                requester.limited(limit, begun).await.map_err(nowhere)
            };
            return requester.persist(self.call(0), attempt).await.map(Parts::Plain);
        };
        let (store, at) = (Arc::clone(&multipart.store), multipart.full_path(&self.path));
        let attempt = || async {
            let begun = requester.limited(limit, store.create_multipart(&at)).await;
            begun.map_err(nowhere)
        };
        let id = requester.persist(self.call(0), attempt).await?;
        Ok(Parts::Numbered { store, at, id, sent: Vec::new() })
    }

    /// Best effort: the lifecycle rule of the bucket removes parts that remain.
    async fn abort(&self, mut parts: Parts) {
        let (requester, call) = (&self.requester, self.call(0));
        let limit = requester.policy(self.intent.class).first_byte;
        let attempts = requester.attempts(&call, 0);
        let aborted = match &mut parts {
            Parts::Plain(upload) => {
                requester.once(&call, &attempts, requester.limited(limit, upload.abort())).await
            }
            Parts::Numbered { store, at, id, .. } => {
                let aborting = requester.limited(limit, store.abort_multipart(at, id));
                requester.once(&call, &attempts, aborting).await
            }
        };
        if let Err(failure) = aborted {
            tracing::debug!(path = %self.path, reason = failure.reason, "an upload could not be aborted");
        }
    }

    async fn send_all(
        self: &Arc<Self>,
        parts: &mut Parts,
        first: PutPayload,
        mut messages: mpsc::Receiver<Message>,
    ) -> Result<u64, Error> {
        let (mut total, mut number) = (0, 0);
        let mut in_flight: VecDeque<Task<UploadedPart>> = VecDeque::new();
        let mut message = Some(Message::Part(first));
        loop {
            let (part, is_last) = match message {
                Some(Message::Part(part)) => (part, false),
                Some(Message::Finish(rest)) => (rest, true),
                None => return Err(self.given_up()),
            };
            if in_flight.len() >= PARTS_IN_FLIGHT_MAX {
                self.land(parts, in_flight.pop_front()).await?;
            }
            let bytes = part.content_length() as u64;
            total += bytes;
            if bytes > 0 {
                in_flight.push_back(self.send_part(parts, number, part));
                number += 1;
            }
            if is_last {
                break;
            }
            message = messages.recv().await;
        }
        while !in_flight.is_empty() {
            self.land(parts, in_flight.pop_front()).await?;
        }
        self.complete(parts, total).await?;
        Ok(total)
    }

    fn send_part(self: &Arc<Self>, parts: &mut Parts, number: usize, part: PutPayload) -> Task<UploadedPart> {
        let bytes = part.content_length() as u64;
        self.requester.meter.transferred(self.intent.class, Operation::Upload, bytes);
        let (env, sending) = (self.requester.env.clone(), Arc::clone(self));
        let limit = self.requester.policy(self.intent.class).attempt_timeout(bytes);
        match parts {
            Parts::Plain(upload) => {
                let part = upload.put_part(part);
                env.spawn("store-upload-part", async move {
                    let (requester, call) = (&sending.requester, sending.call(bytes));
                    let attempts = requester.attempts(&call, bytes);
                    let sent = requester.once(&call, &attempts, requester.limited(limit, part)).await;
                    sent.map(|()| None).map_err(|failure| sending.failed(failure))
                })
            }
            Parts::Numbered { store, at, id, .. } => {
                let (store, at, id) = (Arc::clone(store), at.clone(), id.clone());
                env.spawn("store-upload-part", async move {
                    let requester = &sending.requester;
                    let attempt = || requester.limited(limit, store.put_part(&at, &id, number, part.clone()));
                    requester.persist(sending.call(bytes), attempt).await.map(Some)
                })
            }
        }
    }

    /// Waits for the oldest part. Parts are collected in the order of their numbers.
    async fn land(&self, parts: &mut Parts, part: Option<Task<UploadedPart>>) -> Result<(), Error> {
        let Some(part) = part else { return Ok(()) };
        let landed = part.join().await;
        let landed = landed.map_err(|e| self.failed(Failure::new(Cause::Internal, e.to_string())))??;
        if let (Parts::Numbered { sent, .. }, Some(id)) = (parts, landed) {
            sent.push(id);
        }
        Ok(())
    }

    /// Completes the object, and succeeds only if the store reports the correct length: the response to
    /// a completion may be lost, and names are unique, so an object of that name is ours.
    async fn complete(&self, parts: &mut Parts, total: u64) -> Result<(), Error> {
        let (requester, call) = (&self.requester, self.call(0));
        let limit = requester.policy(self.intent.class).attempt_timeout(total);
        let mut attempts = requester.attempts(&call, total);
        loop {
            let completed = match parts {
                Parts::Plain(upload) => {
                    let completing = requester.limited(limit, upload.complete());
                    requester.once(&call, &attempts, completing).await
                }
                Parts::Numbered { store, at, id, sent } => {
                    let completing = requester.limited(limit, store.complete_multipart(at, id, sent.clone()));
                    requester.once(&call, &attempts, completing).await
                }
            };
            let head = Call { operation: Operation::Head, ..call };
            let shown = requester.persist(head, || requester.inspect(self.intent.class, &self.path)).await?;
            let failure = match (completed, shown) {
                (_, Some(meta)) if meta.size == total => break,
                (Err(failure), _) => failure,
                (Ok(_), found) => {
                    let found = found.map_or(0, |meta| meta.size);
                    return Err(Error::Length { at: requester.place(&call), expected: total, found });
                }
            };
            // Parts that `object_store` numbers are gone after the first attempt.
            if !failure.is_transient() || matches!(parts, Parts::Plain(_)) {
                return Err(self.failed(failure));
            }
            requester.next_attempt(&call, &mut attempts, failure).await?;
        }
        requester.make_durable(&self.path).await.map_err(|failure| self.failed(failure))
    }
}
