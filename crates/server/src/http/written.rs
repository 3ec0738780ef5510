//! Answers that are written piece by piece while what they list is read.
//!
//! **Invariants.** Of the answer a piece is in memory. A failure before the first piece is an answer of its
//! own; after it the body is cut off, so that no client takes a part for the whole.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use sandur_base::{BoxFuture, Env, Lane};
use sandur_query::{Error, QueryContext, QueryStats};

use super::prometheus::reply::{Packer, packed};
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::query_log::{Outcome, QueryLog};

/// What makes the pieces of an answer.
pub trait Writing: Send + 'static {
    /// The next piece.
    fn piece(&mut self) -> BoxFuture<'_, Result<Vec<u8>, Error>>;
    /// Whether the last one was made.
    fn is_over(&self) -> bool;
    /// Entries that were written until now.
    fn entries(&self) -> u64;
}

/// How an answer is sent and logged.
pub struct Sending {
    /// The type of its content.
    pub kind: HeaderValue,
    /// The query that it answers.
    pub context: QueryContext,
    /// The log of that query.
    pub log: QueryLog,
    /// The status of a failure.
    pub status: fn(&Error) -> u16,
}

impl Sending {
    /// The answer failed.
    pub fn failed(self, error: &Error) {
        let cost = self.log.cost();
        self.log.end(&cost, Outcome::of_status((self.status)(error)));
    }

    fn ended(self, entries: u64, bytes: u64) {
        QueryStats::add(&self.context.stats().entries_returned, entries);
        let cost = self.log.cost();
        self.log.end(&cost, Outcome { status: 200, returned_lines: 0, result_bytes: bytes });
    }
}

/// Sends an answer whose first piece was made, and logs it when it is complete or has failed.
pub async fn written<W: Writing>(
    (app, call): (&App, &Call),
    (writing, first): (W, Vec<u8>),
    sending: Sending,
) -> Response {
    if writing.is_over() {
        let kind = sending.kind.clone();
        sending.ended(writing.entries(), first.len() as u64);
        return packed(app, call, kind, first).await;
    }
    let mut response = Response::new(Body::empty());
    let packer = Packer::begin(call, response.headers_mut());
    response.headers_mut().insert(header::CONTENT_TYPE, sending.kind.clone());
    *response.body_mut() = body(app.env.clone(), (writing, first), packer, sending);
    response
}

/// The first piece and those that follow it.
fn body<W: Writing>(env: Env, (writing, first): (W, Vec<u8>), packer: Packer, sending: Sending) -> Body {
    let begun = Some((writing, Some(first), 0, packer, sending));
    let stream = futures_util::stream::unfold(begun, move |state| {
        let env = env.clone();
        async move {
            let (mut writing, first, sent, packer, sending) = state?;
            let piece = match first {
                Some(first) => Ok(first),
                None => writing.piece().await,
            };
            let piece = match piece {
                Ok(piece) => piece,
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
