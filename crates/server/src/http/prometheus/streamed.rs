//! Answers of the index endpoints, written piece by piece while what they list is read.
//!
//! **Invariants.** Of what is listed a batch is in memory, and of the answer a piece. A failure before the
//! first piece is an answer of its own; after it the body is cut off, so that no client takes a part for the
//! whole.

use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use bytes::Bytes;
use sandur_base::{Env, Lane};
use sandur_query::{Error, QueryContext, QueryStats, SampleScan, TextScan};

use super::queries::TRUNCATED;
use super::refused::Refused;
use super::reply::{BEGIN, JSON, PIECE_BYTES, Packer, notes, packed};
use crate::http::app::App;
use crate::http::call::Call;
use crate::http::marshal::json;
use crate::http::query_log::{Asked, Outcome, QueryLog};

/// What is listed.
pub enum Items {
    /// Names or values.
    Texts(Box<dyn TextScan>),
    /// Label sets.
    Series(Box<dyn SampleScan>),
}

/// An answer on its way.
struct Writing {
    context: QueryContext,
    items: Items,
    limit: usize,
    written: usize,
    is_begun: bool,
    is_over: bool,
    bytes: u64,
}

impl Writing {
    /// The next piece of the answer.
    async fn piece(&mut self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        if !std::mem::replace(&mut self.is_begun, true) {
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
        self.bytes += out.len() as u64;
        Ok(out)
    }

    /// Writes the next batch as far as the limit allows; whether there was one. One item more than the limit
    /// is counted.
    async fn add_batch(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        let Self { context, items, limit, written, .. } = self;
        let mut next = |out: &mut Vec<u8>| {
            let is_shown = *written < *limit;
            if is_shown && *written > 0 {
                out.push(b',');
            }
            *written += usize::from(*written <= *limit);
            is_shown
        };
        match items {
            Items::Texts(scan) => {
                let Some(batch) = context.in_time(scan.next()).await?? else { return Ok(false) };
                for text in batch.iter() {
                    if next(out) {
                        json::string(out, text.as_bytes());
                    }
                }
            }
            Items::Series(scan) => {
                let Some(batch) = context.in_time(scan.next()).await?? else { return Ok(false) };
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

/// Answers with what `open` finds, within the query's time, and logs it when the answer is complete.
pub async fn streamed(
    (app, call): (&App, &Call),
    (context, asked): (&QueryContext, Asked),
    limit: Option<usize>,
    open: impl Future<Output = Result<Items, Error>>,
) -> Result<Response, Refused> {
    let log = QueryLog::begin(app, call, context, asked);
    let begun = async {
        let items = context.in_time(open).await??;
        let (context, limit) = (context.clone(), limit.unwrap_or(usize::MAX));
        let (written, is_begun, is_over, bytes) = (0, false, false, 0);
        let mut writing = Writing { context, items, limit, written, is_begun, is_over, bytes };
        let first = writing.piece().await?;
        Ok::<_, Error>((writing, first))
    };
    let (writing, first) = match begun.await {
        Ok(begun) => begun,
        Err(error) => {
            let refused = Refused::from(error);
            let cost = log.cost();
            log.end(&cost, Outcome::of_status(refused.status()));
            return Err(refused);
        }
    };
    if writing.is_over {
        end(log, &writing);
        drop(writing);
        return Ok(packed(app, call, JSON, first).await);
    }
    let mut response = Response::new(Body::empty());
    let packer = Packer::begin(call, response.headers_mut());
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    *response.body_mut() = body(app.env.clone(), writing, first, (packer, log));
    Ok(response)
}

fn end(log: QueryLog, writing: &Writing) {
    QueryStats::add(&writing.context.stats().entries_returned, writing.written as u64);
    let cost = log.cost();
    log.end(&cost, Outcome { status: 200, returned_lines: 0, result_bytes: writing.bytes });
}

/// The first piece and those that follow it.
fn body(env: Env, writing: Writing, first: Vec<u8>, (packer, log): (Packer, QueryLog)) -> Body {
    let begun = Some((writing, Some(first), packer, log));
    let stream = futures_util::stream::unfold(begun, move |state| {
        let env = env.clone();
        async move {
            let (mut writing, first, packer, log) = state?;
            let piece = match first {
                Some(first) => Ok(first),
                None => writing.piece().await,
            };
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => {
                    let (refused, text) = (Refused::from(error.clone()), error.to_string());
                    let cost = log.cost();
                    log.end(&cost, Outcome::of_status(refused.status()));
                    return Some((Err(std::io::Error::other(text)), None));
                }
            };
            let is_over = writing.is_over;
            let (packer, bytes) = env.run_cpu(Lane::Query, move || packer.pack(piece, is_over)).await;
            let state = match is_over {
                true => {
                    end(log, &writing);
                    None
                }
                false => Some((writing, None, packer, log)),
            };
            Some((Ok(Bytes::from(bytes)), state))
        }
    });
    Body::from_stream(stream)
}
