//! Successful answers: the envelope, and bodies that are written piece by piece while the client reads.
//!
//! **Invariant.** At most a few pieces of a body are in memory, however long it is. The data that it is
//! written from stays reserved until the last piece is made.

use std::io::Write;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sandur_runtime::{Env, Lane, Task};

use crate::call::Call;
use crate::marshal::json;
use crate::reply;

/// Content type of Prometheus's JSON answers.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// A piece is complete when it has at least this many bytes.
pub const PIECE_BYTES: usize = 64 << 10;

/// Makes a body piece by piece.
pub trait Pieces: Send + 'static {
    /// Appends the next piece, of [`PIECE_BYTES`] or a small multiple. Returns whether there is another.
    fn next(&mut self, out: &mut Vec<u8>) -> bool;
}

/// An answer with a short body. `data` appends the value of the member `data`.
pub fn success(data: impl FnOnce(&mut Vec<u8>), warnings: &[String]) -> Response {
    let mut body = BEGIN.to_vec();
    data(&mut body);
    notes(&mut body, "warnings", warnings);
    body.push(b'}');
    reply::with_type(JSON, body.into())
}

/// Like [`success`], with a value that is JSON already.
pub fn success_json(data: &str) -> Response {
    success(|out| out.extend_from_slice(data.as_bytes()), &[])
}

/// The start of successful answers.
pub const BEGIN: &[u8] = b"{\"status\":\"success\",\"data\":";

/// Maximum number of warnings, and of infos, in an answer.
const NOTES_MAX: usize = 10;

/// Appends the member `warnings` or `infos` to an object that has other members, if there are any.
pub fn notes(out: &mut Vec<u8>, name: &str, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    let word = name.trim_end_matches('s');
    let more = notes.len().saturating_sub(NOTES_MAX);
    let more = (more > 0).then(|| format!("{more} more {word} annotations omitted"));
    json::push(out, format_args!(",\"{name}\":"));
    json::strings(out, notes.iter().take(NOTES_MAX).chain(&more).map(String::as_str));
}

/// An answer whose body is made of pieces. `ended` is called with the size of the body when it is
/// complete; it is dropped if the client disconnects before.
pub async fn in_pieces(
    env: &Env,
    call: &Call,
    kind: HeaderValue,
    pieces: impl Pieces,
    ended: impl FnOnce(u64) + Send + 'static,
) -> Response {
    let mut writing = Writing { pieces, packer: Packer::default(), piece_bytes: 0, bytes: 0, is_over: false };
    let mut first = Vec::new();
    if !writing.pieces.next(&mut first) {
        ended(first.len() as u64);
        drop(writing);
        return packed(env, call, kind, first).await;
    }
    let mut response = Response::new(Body::empty());
    writing.packer = Packer::begin(call, response.headers_mut());
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    writing.bytes = first.len() as u64;
    let env = env.clone();
    let begun = Some((ahead(&env, writing, Some(first)), ended));
    let stream = futures_util::stream::unfold(begun, move |state| {
        let env = env.clone();
        async move {
            let (piece, ended) = state?;
            let (writing, bytes) = match piece.join().await {
                Ok(made) => made,
                Err(error) => return Some((Err(std::io::Error::other(error)), None)),
            };
            let state = match writing.is_over {
                true => {
                    ended(writing.bytes);
                    None
                }
                // The next piece is made while this one is sent.
                false => Some((ahead(&env, writing, None), ended)),
            };
            Some((Ok(bytes), state))
        }
    });
    *response.body_mut() = Body::from_stream(stream);
    response
}

/// Starts to make the next piece of a body.
fn ahead<P: Pieces>(env: &Env, writing: Writing<P>, first: Option<Vec<u8>>) -> Task<(Writing<P>, Bytes)> {
    let pool = env.clone();
    env.spawn("write answer", async move { pool.run_cpu(Lane::Query, move || writing.step(first)).await })
}

/// A short body: compressed if the client accepts that and it is large enough.
pub async fn packed(env: &Env, call: &Call, kind: HeaderValue, body: Vec<u8>) -> Response {
    let mut response = reply::large_json(env, call, body, None).await;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Compresses the pieces of a body, if the client accepts that.
#[derive(Default)]
pub struct Packer(Option<GzEncoder<Vec<u8>>>);

impl Packer {
    /// A packer for the answer to a call; sets the header `Content-Encoding`.
    pub fn begin(call: &Call, headers: &mut HeaderMap) -> Self {
        if !call.wants_gzip() {
            return Self(None);
        }
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        Self(Some(GzEncoder::new(Vec::new(), Compression::fast())))
    }

    /// Returns the bytes to send for a piece.
    pub fn pack(mut self, piece: Vec<u8>, is_last: bool) -> (Self, Vec<u8>) {
        let Some(mut encoder) = self.0.take() else { return (self, piece) };
        encoder.write_all(&piece).expect("writing to a Vec does not fail");
        if is_last {
            return (self, encoder.finish().expect("writing to a Vec does not fail"));
        }
        let bytes = std::mem::take(encoder.get_mut());
        (Self(Some(encoder)), bytes)
    }
}

struct Writing<P> {
    pieces: P,
    packer: Packer,
    /// Size of the previous piece.
    piece_bytes: usize,
    bytes: u64,
    is_over: bool,
}

impl<P: Pieces> Writing<P> {
    /// Makes the next bytes to send.
    fn step(mut self, first: Option<Vec<u8>>) -> (Self, Bytes) {
        let piece = match first {
            Some(first) => first,
            None => {
                let mut piece = Vec::with_capacity(self.piece_bytes.max(PIECE_BYTES) + PIECE_BYTES / 4);
                self.is_over = !self.pieces.next(&mut piece);
                self.piece_bytes = piece.len();
                self.bytes += piece.len() as u64;
                piece
            }
        };
        let bytes;
        (self.packer, bytes) = std::mem::take(&mut self.packer).pack(piece, self.is_over);
        (self, bytes.into())
    }
}

/// An array of strings or label sets, followed by warnings.
pub struct Listed<T> {
    items: std::vec::IntoIter<T>,
    write: fn(&mut Vec<u8>, &T),
    warnings: Vec<String>,
    written: usize,
    _memory: Option<sandur_memory::Reservation>,
}

impl<T> Listed<T> {
    /// `write` appends one item.
    pub fn new(
        items: Vec<T>,
        write: fn(&mut Vec<u8>, &T),
        warnings: Vec<String>,
        memory: Option<sandur_memory::Reservation>,
    ) -> Self {
        Self { items: items.into_iter(), write, warnings, written: 0, _memory: memory }
    }
}

impl<T: Send + 'static> Pieces for Listed<T> {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if self.written == 0 {
            out.extend_from_slice(BEGIN);
            out.push(b'[');
        }
        while out.len() < PIECE_BYTES {
            let Some(item) = self.items.next() else {
                out.push(b']');
                notes(out, "warnings", &self.warnings);
                out.push(b'}');
                return false;
            };
            if self.written > 0 {
                out.push(b',');
            }
            (self.write)(out, &item);
            self.written += 1;
        }
        true
    }
}
