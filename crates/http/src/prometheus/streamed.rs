//! Answers of the index endpoints, written piece by piece while their data is read.
//!
//! **Invariants.** One batch of the data and one piece of the answer are in memory.
//! [`crate::written`] describes how failures are reported and how the answer waits for memory.

use axum::response::Response;
use sandur_base::BoxFuture;
use sandur_query::{Error, QueryContext, SampleScan, SeriesBatch, TextBatch, TextScan};
use sandur_service::Queries;
use sandur_service::query_log::{Asked, Outcome, QueryLog};

use super::queries::TRUNCATED;
use super::refused::Refused;
use super::reply::{BEGIN, JSON, PIECE_BYTES, notes};
use crate::call::Call;
use crate::marshal::json;
use crate::written::{Sending, Writing, begun, written};

/// The items of an answer.
pub enum Items {
    /// Names or values.
    Texts(Box<dyn TextScan>),
    /// Label sets.
    Series(Box<dyn SampleScan>),
}

enum Batch {
    Texts(TextBatch),
    Series(SeriesBatch),
}

impl Items {
    async fn next(&mut self) -> Result<Option<Batch>, Error> {
        Ok(match self {
            Self::Texts(scan) => scan.next().await?.map(Batch::Texts),
            Self::Series(scan) => scan.next().await?.map(Batch::Series),
        })
    }
}

/// An answer that is being written.
struct Listed {
    context: QueryContext,
    items: Items,
    limit: usize,
    written: usize,
    /// Whether a piece was sent; after that the answer cannot be begun again.
    is_sent: bool,
    is_over: bool,
}

impl Listed {
    /// Makes the next piece of the answer.
    async fn piece(&mut self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        if !self.is_sent {
            out.extend_from_slice(BEGIN);
            out.push(b'[');
        }
        while out.len() < PIECE_BYTES && !self.is_over {
            let more = self.add_batch(&mut out).await?;
            if more && self.written <= self.limit {
                continue;
            }
            let mut warnings = self.context.warnings();
            if self.written > self.limit {
                self.written = self.limit;
                warnings.push(TRUNCATED.to_owned());
            }
            out.push(b']');
            notes(&mut out, "warnings", &warnings);
            out.push(b'}');
            self.is_over = true;
        }
        self.is_sent = true;
        Ok(out)
    }

    /// Reads the next batch. Once a piece was sent, it waits when the memory budget is exhausted.
    async fn batch(&mut self) -> Result<Option<Batch>, Error> {
        let Self { context, items, is_sent, .. } = self;
        let mut retries = context.memory_retries();
        loop {
            let next = context.in_time(items.next()).await?;
            if !*is_sent || !retries.repeat_step_after(&next).await {
                return next;
            }
        }
    }

    /// Writes the next batch up to the limit; one item beyond the limit is counted but not written.
    /// Returns whether there was a batch.
    async fn add_batch(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        let Some(batch) = self.batch().await? else { return Ok(false) };
        let Self { limit, written, .. } = self;
        let mut next = |out: &mut Vec<u8>| {
            let is_shown = *written < *limit;
            if is_shown && *written > 0 {
                out.push(b',');
            }
            *written += usize::from(*written <= *limit);
            is_shown
        };
        match batch {
            Batch::Texts(batch) => {
                for text in batch.iter() {
                    if next(out) {
                        json::utf8(out, text);
                    }
                }
            }
            Batch::Series(batch) => {
                for series in 0..batch.labels.len() {
                    if next(out) {
                        json::labels(out, batch.pairs(series));
                    }
                }
            }
        }
        Ok(true)
    }
}

impl Writing for Listed {
    fn piece(&mut self) -> BoxFuture<'_, Result<Vec<u8>, Error>> {
        Box::pin(Self::piece(self))
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn entries(&self) -> u64 {
        self.written as u64
    }
}

/// Answers with the items that `open` finds, within the query's time, and logs the query when the answer
/// is complete.
pub async fn streamed<F: Future<Output = Result<Items, Error>>>(
    (queries, call): (&Queries, &Call),
    (context, asked): (&QueryContext, Asked),
    limit: Option<usize>,
    open: impl Fn() -> F,
) -> Result<Response, Refused> {
    let log = QueryLog::begin(queries, &call.caller, context, asked);
    let failure = |error: &Error| Outcome::from(&Refused::from(error.clone()));
    let sending = Sending { kind: JSON, context: context.clone(), log, failure };
    let opened = || async {
        let items = context.in_time(open()).await??;
        let (context, limit) = (context.clone(), limit.unwrap_or(usize::MAX));
        Ok(Listed { context, items, limit, written: 0, is_sent: false, is_over: false })
    };
    match begun(context, opened).await {
        Ok(begun) => Ok(written((queries.env(), call), begun, sending).await),
        Err(error) => {
            sending.failed(&error);
            Err(Refused::from(error))
        }
    }
}
