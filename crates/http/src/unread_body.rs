//! Handles a body that was not read when its request was answered: the request was refused, or did not
//! need the body.
//!
//! HTTP/1 sends the next request after the body. A short rest is read and discarded, so that the
//! connection can be reused. Otherwise the answer says `Connection: close`, and [`super::timed_stream`]
//! keeps reading for a while before it closes: closing a socket with unread bytes resets it, and a client
//! that is still sending may then never see why it was refused (RFC 9112, 9.6).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use sandur_runtime::Env;
use tokio::sync::oneshot;

/// Maximum bytes of a rest that are read to keep the connection.
const REST_BYTES_MAX: u64 = 256 << 10;
/// How long the answer waits for such a rest, which usually has arrived already.
const PATIENCE: Duration = Duration::from_secs(1);

/// A body that sends itself back when it is dropped before its end.
struct Watched<B: HttpBody + Unpin> {
    body: Option<B>,
    back: Option<oneshot::Sender<B>>,
}

/// The unread rest of a body, available once its reader was dropped.
pub struct Rest<B>(oneshot::Receiver<B>);

/// Wraps a body for its handler, and returns the handle to its rest; `None` for an empty body.
pub fn watched<B>(body: B) -> (Body, Option<Rest<B>>)
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    if body.is_end_stream() {
        return (Body::new(body), None);
    }
    let (back, rest) = oneshot::channel();
    (Body::new(Watched { body: Some(body), back: Some(back) }), Some(Rest(rest)))
}

impl<B: HttpBody<Data = Bytes> + Unpin> Rest<B> {
    /// Reads a short rest. Returns whether the body is complete.
    pub async fn read_out(mut self, env: &Env) -> bool {
        let Ok(mut body) = self.0.try_recv() else { return true };
        if body.size_hint().lower() > REST_BYTES_MAX {
            return false;
        }
        let reading = async {
            let mut read = 0;
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                read += frame.data_ref().map_or(0, Bytes::len) as u64;
                if read > REST_BYTES_MAX {
                    return false;
                }
            }
            true
        };
        env.timeout(PATIENCE, reading).await.unwrap_or(false)
    }

    /// Returns whether the body is complete, without reading a rest.
    pub fn leave(mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Watched<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl<B: HttpBody + Unpin> Drop for Watched<B> {
    fn drop(&mut self) {
        let body = self.body.take().filter(|body| !body.is_end_stream());
        if let Some((body, back)) = body.zip(self.back.take()) {
            // The receiver is gone when the connection is.
            let _ = back.send(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream::{iter, pending};

    use super::*;

    /// Whether `body` counts as complete after its handler read `frames` of its frames, and how long that
    /// took.
    fn is_read(body: Body, frames: usize) -> (bool, Duration) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let env = Env::simulated(1, 0);
            let (mut body, rest) = watched(body);
            for _ in 0..frames {
                body.frame().await.unwrap().unwrap();
            }
            drop(body);
            let is_read = match rest {
                Some(rest) => rest.read_out(&env).await,
                None => true,
            };
            (is_read, env.monotonic())
        })
    }

    fn pieces(count: usize) -> Body {
        Body::from_stream(iter(vec![Ok::<_, Infallible>(Bytes::from(vec![0u8; 64 << 10])); count]))
    }

    #[test]
    fn a_short_rest_is_read_and_a_long_one_is_left() {
        for (body, frames, expected) in [
            (Body::empty(), 0, true),
            (Body::from("x"), 0, true),
            (pieces(4), 0, true),
            (pieces(5), 0, false),
            (pieces(5), 1, true),
            (pieces(5), 5, true),
            (Body::from(vec![0u8; 1 << 20]), 0, false),
        ] {
            assert_eq!(is_read(body, frames), (expected, Duration::ZERO));
        }
    }

    #[test]
    fn a_rest_that_does_not_arrive_delays_the_answer_until_the_timeout() {
        let silent = Body::from_stream(pending::<Result<Bytes, Infallible>>());
        assert_eq!(is_read(silent, 0), (false, PATIENCE));
        let broken = Body::from_stream(iter([Err::<Bytes, _>(std::io::Error::other("cut"))]));
        assert_eq!(is_read(broken, 0), (false, Duration::ZERO));
    }

    #[test]
    fn a_body_that_a_handler_still_reads_is_not_touched() {
        let (body, rest) = watched(pieces(1));
        assert!(rest.unwrap().leave());
        assert_eq!(body.size_hint().lower(), 0);
    }
}
