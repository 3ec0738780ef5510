//! Commits: one task per open catalog writes the transactions of all callers, one entry at a time.
//!
//! Life of a commit:
//!
//! 1. Waiting transactions are gathered into one entry and applied in memory to a clone of the verified
//!    snapshot. Each transaction remains all or nothing. One that the state does not allow is rejected
//!    once the snapshot is known to be current, and is never written.
//! 2. The last entry is read, so that nothing is written after a gap. Then the new entry, which holds the
//!    last one's checksum, is created at the next number. An unclear result is retried with the same
//!    bytes until the number is known to hold them or another process's entry.
//! 3. If another process has the number, the log is followed to its end, and the commit restarts at step
//!    1 with the same sequence numbers.
//! 4. If the entry was created, the boundary is read. If the boundary is above the verified snapshot,
//!    there are two possibilities: the number was deleted before the create, so the new entry is never
//!    read; or the entry was applied and deleted since. The state is loaded again and decides, because it
//!    remembers sessions.
//!
//! Invariants: an entry is written only if no earlier entry of this session is undecided in this loop.
//! After a deadline the entry may still be created at its number; the next entry finds this out, because
//! it is created at the same number. So sequence numbers are decided in order.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use sandur_base::Id;
use sandur_format::Error as FormatError;
use sandur_format::catalog_entry::{
    ENTRY_BYTES_MAX, Edit, Entry, Precondition, TRANSACTIONS_MAX, Transaction, Verdict, entry_checksum,
};
use sandur_store::{Created, Intent};
use tokio::sync::{mpsc, oneshot};

use crate::error::{CommitError, EditFault, Error, Rejection};
use crate::names;
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::state::{Outcome, SESSION_ENTRIES};

/// Bytes for the frame and the fields of an entry around its transactions.
const ENTRY_OVERHEAD_BYTES: usize = 64;

type Answer = Result<Arc<Snapshot>, CommitError>;

/// One caller's transaction, and the channel for its result.
pub(crate) struct Request {
    /// Its sequence number is assigned when it is gathered.
    transaction: Transaction,
    /// Most bytes that it takes in an entry.
    length: usize,
    answer: oneshot::Sender<Answer>,
}

impl Request {
    /// Returns a request and the receiver of its result; an error if the transaction is larger than an
    /// entry.
    pub fn new(
        author: Id,
        edits: Vec<Edit>,
        preconditions: Vec<Precondition>,
    ) -> Result<(Self, oneshot::Receiver<Answer>), FormatError> {
        // With the largest sequence number the encoded length is an upper bound.
        let transaction = Transaction { sequence: u64::MAX, author, preconditions, edits };
        let (length, limit) = (transaction.encoded_len()?, ENTRY_BYTES_MAX - ENTRY_OVERHEAD_BYTES);
        if length > limit {
            let (part, found, limit) = ("catalog entry", length as u64, limit as u64);
            return Err(FormatError::TooLarge { part, what: "the length of a transaction", found, limit });
        }
        let (answer, receiver) = oneshot::channel();
        Ok((Self { transaction, length, answer }, receiver))
    }
}

/// The task that commits for one open catalog. Between commits it holds no reference to the catalog, so
/// that dropping the last handle releases the store at once.
pub(crate) struct Committer {
    shared: Weak<Shared>,
    session: Id,
    next_sequence: u64,
    requests: mpsc::Receiver<Request>,
    /// A request that did not fit into the last entry.
    left_over: Option<Request>,
}

/// The work on one batch.
struct Round {
    shared: Arc<Shared>,
    session: Id,
}

/// Transactions that are being committed together.
struct Batch {
    waiting: Vec<Waiting>,
    /// The verified number at the first attempt.
    base: u64,
    began: Duration,
    conflicts: u32,
    /// The number at which it may have been written, until that is decided.
    placed: Option<u64>,
    /// Whether the snapshot is at least as new as the call; only then may a transaction be rejected.
    current: bool,
}

struct Waiting {
    transaction: Transaction,
    answer: oneshot::Sender<Answer>,
}

/// The result of an attempt to write an entry at its number.
enum Placed {
    Ours,
    Taken,
    /// No definite result before the deadline.
    Unclear(String),
}

impl Committer {
    pub fn new(shared: &Arc<Shared>, requests: mpsc::Receiver<Request>) -> Self {
        let session = shared.env.new_id();
        Self { shared: Arc::downgrade(shared), session, next_sequence: 1, requests, left_over: None }
    }

    /// Commits until every handle of the catalog is dropped.
    pub async fn run(mut self) {
        loop {
            let first = match self.left_over.take() {
                Some(request) => request,
                None => match self.requests.recv().await {
                    Some(request) => request,
                    None => return,
                },
            };
            let Some(shared) = self.shared.upgrade() else { return };
            let batch = self.gather(&shared, first);
            Round { shared, session: self.session }.commit(batch).await;
        }
    }

    /// Gathers the first request and the waiting ones, as far as they fit into one entry.
    fn gather(&mut self, shared: &Shared, first: Request) -> Batch {
        let mut batch = Batch {
            waiting: Vec::new(),
            base: shared.current().number(),
            began: shared.env.monotonic(),
            conflicts: 0,
            placed: None,
            current: false,
        };
        let (mut next, mut bytes) = (Some(first), ENTRY_OVERHEAD_BYTES);
        while let Some(request) = next {
            if bytes + request.length > ENTRY_BYTES_MAX {
                self.left_over = Some(request);
                break;
            }
            bytes += request.length;
            let Request { mut transaction, answer, .. } = request;
            transaction.sequence = self.next_sequence;
            self.next_sequence += 1;
            batch.waiting.push(Waiting { transaction, answer });
            if batch.waiting.len() == TRANSACTIONS_MAX {
                break;
            }
            next = self.requests.try_recv().ok();
        }
        batch
    }
}

impl Round {
    async fn commit(&self, mut batch: Batch) {
        let mut failures = 0;
        while !batch.waiting.is_empty() {
            let failed = match self.step(&mut batch).await {
                Ok(()) => continue,
                Err(error) if !error.kind().is_retryable() => return self.give_up(batch, error),
                Err(error) => error,
            };
            tracing::warn!(error = %failed, "retrying a catalog commit");
            let waited = self.waited(&batch);
            if waited >= self.shared.options.commit_deadline {
                return self.give_up(batch, failed);
            }
            self.shared.pause(failures).await;
            failures += 1;
        }
    }

    /// Makes one attempt. After an error the outcome of the batch is as unknown as before.
    async fn step(&self, batch: &mut Batch) -> Result<(), Error> {
        self.shared.expect_not_lost()?;
        let snapshot = self.shared.current();
        if !self.resolve(batch, &snapshot) {
            return Ok(());
        }
        let entry = self.entry(batch, &snapshot);
        let mut next = Snapshot::clone(&snapshot);
        let outcomes = next.apply(&entry);
        if outcomes.iter().any(|o| *o != Outcome::Applied) {
            if batch.current {
                self.reject(batch, outcomes);
                return Ok(());
            }
            self.shared.catch_up().await?;
            batch.current = true;
            return Ok(());
        }
        let bytes = Bytes::from(entry.encode()?);
        next.chain.follow(snapshot.number(), entry.before, entry_checksum(&bytes));
        if batch.placed.is_none() {
            // Nothing is written after a gap.
            self.shared.verify_end(&snapshot).await?;
        }
        match self.place(batch, &entry, bytes).await? {
            Placed::Ours => self.confirm(batch, &snapshot, next).await,
            Placed::Taken => {
                batch.conflicts += 1;
                self.shared.metrics.conflicts.inc();
                self.shared.catch_up().await?;
                batch.current = true;
                Ok(())
            }
            Placed::Unclear(reason) => {
                self.fail_all(batch, &reason);
                Ok(())
            }
        }
    }

    fn entry(&self, batch: &Batch, last: &Snapshot) -> Entry {
        let transactions = batch.waiting.iter().map(|w| w.transaction.clone()).collect();
        let (number, before) = (last.number() + 1, Some(last.chain.last()));
        Entry { number, session: self.session, base: batch.base, before, transactions }
    }

    /// Creates the entry at its number, and retries until it is known whose entry has the number.
    async fn place(&self, batch: &mut Batch, entry: &Entry, bytes: Bytes) -> Result<Placed, Error> {
        let path = names::entry(entry.number);
        for retry in 0.. {
            let remaining = self.shared.options.commit_deadline.saturating_sub(self.waited(batch));
            batch.placed = Some(entry.number);
            self.shared.metrics.attempts.inc();
            let create = self.shared.store.create(&path, bytes.clone(), Intent::catalog());
            let failure = match self.shared.env.timeout(remaining, create).await {
                Some(Ok(Created::New)) => return Ok(Placed::Ours),
                Some(Ok(Created::Exists(found))) => {
                    let ours = Entry::decode(&found).is_ok_and(|found| found == *entry);
                    return Ok(if ours { Placed::Ours } else { Placed::Taken });
                }
                Some(Err(error)) if !error.kind().is_retryable() => return Err(error.into()),
                // Waiting does not free space, and a start on a full disk must not block on it.
                Some(Err(error @ sandur_store::Error::Full { .. })) => {
                    return Ok(Placed::Unclear(error.to_string()));
                }
                Some(Err(error)) => error.to_string(),
                None => return Ok(Placed::Unclear(format!("no answer to the creation of '{path}'"))),
            };
            tracing::warn!(number = entry.number, reason = %failure, "retrying a catalog entry");
            if self.waited(batch) >= self.shared.options.commit_deadline {
                return Ok(Placed::Unclear(failure));
            }
            self.shared.pause(retry).await;
        }
        unreachable!("the loop above has no end")
    }

    /// Our entry is at its number: checks whether it is part of the log.
    async fn confirm(&self, batch: &mut Batch, verified: &Snapshot, next: Snapshot) -> Result<(), Error> {
        let boundary = loop {
            match self.shared.read_boundary().await {
                Ok(boundary) => break boundary,
                Err(error) if !error.kind().is_retryable() => return Err(error),
                Err(error) if self.waited(batch) >= self.shared.options.commit_deadline => return Err(error),
                Err(_) => self.shared.pause(2).await,
            }
        };
        if boundary > verified.number() {
            tracing::warn!(number = next.number(), boundary, "an entry was created at a deleted number");
            let loaded = self.shared.reload().await?;
            self.shared.publish(loaded);
            batch.current = true;
            return Ok(());
        }
        self.shared.metrics.entries.inc();
        let published = self.shared.publish(Arc::new(next));
        if self.shared.witnesses_every_commit() {
            self.shared.write_witness(&published).await;
        }
        for waiting in batch.waiting.drain(..) {
            self.answer(waiting, Ok(Arc::clone(&published)));
        }
        Ok(())
    }

    /// Determines the outcome of the last attempt; `false` when the batch is answered.
    fn resolve(&self, batch: &mut Batch, snapshot: &Arc<Snapshot>) -> bool {
        let since = snapshot.number().saturating_sub(batch.base);
        if let Some(number) = batch.placed {
            if self.settle(batch, snapshot) {
                return false;
            }
            if since > SESSION_ENTRIES {
                self.fail_all(batch, "its outcome may be forgotten after too many entries");
                return false;
            }
            if snapshot.number() >= number {
                // The log has passed the number without it: the number belongs to another process.
                batch.placed = None;
            }
        }
        if since > SESSION_ENTRIES / 2 && batch.placed.is_none() {
            batch.base = snapshot.number();
        }
        if self.waited(batch) >= self.shared.options.commit_deadline {
            self.fail_all(batch, "the deadline has passed");
            return false;
        }
        true
    }

    /// Answers a batch that the published state has already decided; `false` when it has not.
    fn settle(&self, batch: &mut Batch, snapshot: &Arc<Snapshot>) -> bool {
        let first = batch.waiting[0].transaction.sequence;
        if !snapshot.is_decided(self.session, first) {
            return false;
        }
        let waited = self.waited(batch);
        for waiting in batch.waiting.drain(..) {
            let Transaction { sequence, preconditions, edits, .. } = &waiting.transaction;
            let precondition = |index: u16| preconditions.get(usize::from(index)).cloned();
            let result = match snapshot.verdict(self.session, *sequence) {
                Some(Verdict::Applied) => Ok(Arc::clone(snapshot)),
                Some(Verdict::Precondition(index)) => Err(precondition(index).map(Rejection::Precondition)),
                Some(Verdict::Edit(index)) => Err(edits
                    .get(usize::from(index))
                    .map(|edit| Rejection::Edit { edit: edit.clone(), fault: EditFault::Recorded })),
                None => Err(None),
            };
            let result = result.map_err(|why| match why {
                Some(why) => CommitError::Rejected { why: Box::new(why) },
                None => CommitError::Uncertain { waited, reason: "its outcome was forgotten".into() },
            });
            self.answer(waiting, result);
        }
        true
    }

    fn waited(&self, batch: &Batch) -> Duration {
        self.shared.env.monotonic().saturating_sub(batch.began)
    }

    /// Ends a batch without an outcome: uncertain if an entry may have been written, else it did not
    /// happen.
    fn fail_all(&self, batch: &mut Batch, reason: &str) {
        let (waited, conflicts) = (self.waited(batch), batch.conflicts);
        for waiting in batch.waiting.drain(..) {
            let error = match batch.placed {
                Some(_) => CommitError::Uncertain { waited, reason: reason.to_owned() },
                None => CommitError::Deadline { waited, conflicts },
            };
            self.answer(waiting, Err(error));
        }
    }

    fn give_up(&self, mut batch: Batch, error: Error) {
        if batch.placed.is_some() {
            return self.fail_all(&mut batch, &error.to_string());
        }
        for waiting in batch.waiting.drain(..) {
            self.answer(waiting, Err(CommitError::Failed(error.clone())));
        }
    }

    /// Answers the transactions that the current state does not allow; the others stay.
    fn reject(&self, batch: &mut Batch, outcomes: Vec<Outcome>) {
        let waiting = std::mem::take(&mut batch.waiting);
        for (waiting, outcome) in waiting.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Rejected(why) => {
                    self.answer(waiting, Err(CommitError::Rejected { why: Box::new(why) }));
                }
                _ => batch.waiting.push(waiting),
            }
        }
    }

    fn answer(&self, waiting: Waiting, answer: Answer) {
        self.shared.metrics.count_commit(&answer);
        // The caller may have dropped its future.
        let _ = waiting.answer.send(answer);
    }
}
