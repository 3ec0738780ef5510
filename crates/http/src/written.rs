//! Sends an answer piece by piece while its data is read.
//!
//! **Invariants.** One piece of the answer is in memory at a time. A failure before the first piece
//! becomes an error response; a later one aborts the body, so that no client takes a part for the whole.
//! If the memory budget is exhausted, the answer waits before its first byte. Once begun, it keeps the
//! memory that it used, so that later pieces find as much as the first one needed; a piece that needs
//! more waits for it.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use hyper::body::Frame;
use sandur_base::BoxFuture;
use sandur_query::{Error, QueryContext, QueryStats};
use sandur_runtime::{Env, Lane};
use sandur_service::query_log::{Outcome, QueryLog};

use super::grpc;
use super::prometheus::reply::{Packer, packed};
use crate::call::Call;
use crate::failed_request::Failure;

/// Makes the pieces of an answer.
pub trait Writing: Send + 'static {
    /// Makes the next piece. The caller charges its allocations to the query.
    fn piece(&mut self) -> BoxFuture<'_, Result<Vec<u8>, Error>>;
    /// Whether the last piece was made.
    fn is_over(&self) -> bool;
    /// Number of entries written so far.
    fn entries(&self) -> u64;
}

/// How an answer is sent and logged.
pub struct Sending {
    /// The content type.
    pub kind: HeaderValue,
    /// The query that it answers.
    pub context: QueryContext,
    /// Its line of the query log.
    pub log: QueryLog,
    /// Converts an error to the outcome that is logged.
    pub failure: fn(&Error) -> Outcome,
}

impl Sending {
    /// Logs that the answer failed.
    pub fn failed(self, error: &Error) {
        let cost = self.log.cost();
        self.log.end(&cost, (self.failure)(error));
    }

    fn ended(self, entries: u64, bytes: u64) {
        QueryStats::add(&self.context.stats().entries_returned, entries);
        let cost = self.log.cost();
        self.log.end(&cost, Outcome::answered(bytes));
    }
}

/// Opens the source of an answer and makes its first piece. Waits when there is no memory for both.
pub async fn begun<W: Writing, F: Future<Output = Result<W, Error>>>(
    context: &QueryContext,
    open: impl Fn() -> F,
) -> Result<(W, Vec<u8>), Error> {
    let mut retries = context.memory_retries();
    loop {
        let opened = async {
            let mut writing = open().await?;
            context.budget().keep_what_is_freed();
            let first = piece_of(context, &mut writing).await?;
            Ok((writing, first))
        };
        let done = opened.await;
        if !retries.repeat_after(&done).await {
            return done;
        }
    }
}

/// Makes the next piece and charges its allocations to the query's account. The finished piece leaves the
/// account, since its sender frees it. So the account of a long answer does not grow with what was sent.
async fn piece_of<W: Writing>(context: &QueryContext, writing: &mut W) -> Result<Vec<u8>, Error> {
    let piece = context.account().charge(writing.piece()).await?;
    context.account().hand_over(piece.capacity());
    Ok(piece)
}

/// Returns the first piece, if it was not sent yet, or makes the next one. Later pieces are made on the
/// CPU pool, since an answer with several pieces may have very many.
async fn next_piece<W: Writing>(
    context: &QueryContext,
    mut writing: W,
    first: Option<Vec<u8>>,
) -> Result<(W, Vec<u8>), Error> {
    if let Some(first) = first {
        return Ok((writing, first));
    }
    let making = context.clone();
    let work = async move {
        let piece = piece_of(&making, &mut writing).await?;
        Ok((writing, piece))
    };
    context.work(work).await
}

/// Sends an answer whose first piece is made, and logs it when it is complete or has failed.
pub async fn written<W: Writing>(
    (env, call): (&Env, &Call),
    (writing, first): (W, Vec<u8>),
    sending: Sending,
) -> Response {
    if writing.is_over() {
        let kind = sending.kind.clone();
        sending.ended(writing.entries(), first.len() as u64);
        return packed(env, call, kind, first).await;
    }
    let mut response = Response::new(Body::empty());
    let packer = Packer::begin(call, response.headers_mut());
    response.headers_mut().insert(header::CONTENT_TYPE, sending.kind.clone());
    *response.body_mut() = body(env.clone(), (writing, first), packer, sending);
    response
}

/// A body of the first piece and those that follow it.
fn body<W: Writing>(env: Env, (writing, first): (W, Vec<u8>), packer: Packer, sending: Sending) -> Body {
    let begun = Some((writing, Some(first), 0, packer, sending));
    let stream = futures_util::stream::unfold(begun, move |state| {
        let env = env.clone();
        async move {
            let (writing, first, sent, packer, sending) = state?;
            let (writing, piece) = match next_piece(&sending.context, writing, first).await {
                Ok(made) => made,
                Err(error) => {
                    let text = error.to_string();
                    sending.failed(&error);
                    return Some((Err(std::io::Error::other(text)), None));
                }
            };
            let (is_over, sent) = (writing.is_over(), sent + piece.len() as u64);
            let (packer, bytes) = env.run_cpu(Lane::Query, move || packer.pack(piece, is_over)).await;
            let state = match is_over {
                true => {
                    sending.ended(writing.entries(), sent);
                    None
                }
                false => Some((writing, None, sent, packer, sending)),
            };
            Some((Ok(Bytes::from(bytes)), state))
        }
    });
    Body::from_stream(stream)
}

/// Like [`written`] for gRPC: pieces are complete messages with their prefixes, and the trailers report a
/// failure after the first piece.
pub fn written_as_messages<W: Writing>((writing, first): (W, Vec<u8>), sending: Sending) -> Response {
    let begun = Some((writing, Some(first), 0, sending));
    let pieces = futures_util::stream::unfold(begun, |state| async move {
        let (writing, first, sent, sending) = state?;
        if first.is_none() && writing.is_over() {
            sending.ended(writing.entries(), sent);
            return Some((Frame::trailers(grpc::good()), None));
        }
        match next_piece(&sending.context, writing, first).await {
            Ok((writing, piece)) => {
                let sent = sent + piece.len() as u64;
                Some((Frame::data(Bytes::from(piece)), Some((writing, None, sent, sending))))
            }
            Err(error) => {
                let trailers = grpc::failed(&Failure::from(error.clone()));
                sending.failed(&error);
                Some((Frame::trailers(trailers), None))
            }
        }
    });
    grpc::streamed(pieces.map(Ok))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::TenantId;

    use super::*;

    const PIECE: u64 = 300;

    /// Pieces that each need memory.
    struct Pieces(QueryContext);

    impl Writing for Pieces {
        fn piece(&mut self) -> BoxFuture<'_, Result<Vec<u8>, Error>> {
            Box::pin(async {
                let memory = self.0.budget().reserve(PIECE)?;
                Ok(vec![b'x'; memory.bytes() as usize])
            })
        }

        fn is_over(&self) -> bool {
            false
        }

        fn entries(&self) -> u64 {
            0
        }
    }

    /// An answer waits for memory before it begins; afterwards other queries cannot take what it needs.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_began_keeps_the_memory_for_its_later_pieces() {
        let env = Env::simulated(1, 0);
        let all = MemoryBudget::root("all queries", 1_000);
        let query = all.child("query", 800);
        let minute = Duration::from_secs(60);
        let context = QueryContext::new(env.clone(), TenantId::default_tenant(), query, minute);
        let others = all.reserve(900).unwrap();
        let opened = || async { Ok(Pieces(context.clone())) };
        let (begun, ()) = tokio::join!(begun(&context, opened), async move {
            env.sleep(Duration::from_secs(5)).await;
            drop(others);
        });
        let (mut pieces, first) = begun.unwrap();
        assert_eq!(first.len() as u64, PIECE);
        let _others = all.reserve(all.available()).unwrap();
        assert!(all.reserve(1).is_err());
        for _ in 0..3 {
            assert_eq!(pieces.piece().await.unwrap().len() as u64, PIECE);
        }
    }
}
