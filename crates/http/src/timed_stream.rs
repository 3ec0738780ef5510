//! A stream that fails when the client is too slow: to send a head, to send the next request, or to read
//! an answer.
//!
//! An answer must be read at a minimum rate, so that no client holds an answer in memory by reading a
//! byte now and then. A connection that closes after an answer to a request whose body was not read to
//! its end keeps reading for a while ([`super::unread_body`] says why).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_config::Http;
use sandur_listeners::{Phase, Place};
use sandur_memory::Reservation;
use sandur_runtime::Env;
use sandur_service::writes::RATE_WINDOW;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long a connection reads and discards what the client sends after the last answer.
const LINGER: Duration = Duration::from_secs(5);
/// Reads of [`DISCARDED`] bytes before the task yields.
const DISCARDS_PER_TURN: usize = 32;
const DISCARDED: usize = 8 << 10;
/// Bytes of a head that need no reservation; a larger head is reserved.
const HEAD_FREE: u64 = 8 << 10;

/// The stream of one connection.
pub struct TimedStream<S> {
    inner: S,
    env: Env,
    place: Arc<Place>,
    header_timeout: Duration,
    idle_timeout: Duration,
    write_timeout: Duration,
    rate_min: u64,
    /// The timeout of the read that waits, and the phase that it is for.
    reading: Option<(Phase, BoxFuture<'static, ()>)>,
    /// The timeout of the write that waits.
    writing: Option<BoxFuture<'static, ()>>,
    /// Since when the client blocks an answer, and the bytes that it read since then.
    held_up: Option<(Duration, u64)>,
    /// The timeout for discarding what the client still sends, once nothing is sent to it.
    lingering: Option<BoxFuture<'static, ()>>,
    /// Bytes of the present head, and its reservation if it is larger than [`HEAD_FREE`].
    head: (u64, Option<Reservation>),
}

impl<S> TimedStream<S> {
    /// Wraps the stream of a connection that has this place.
    pub fn new(inner: S, env: Env, http: &Http, place: Arc<Place>) -> Self {
        Self {
            inner,
            env,
            place,
            header_timeout: http.header_timeout,
            idle_timeout: http.idle_timeout,
            write_timeout: http.write_idle_timeout,
            rate_min: http.min_client_rate,
            reading: None,
            writing: None,
            held_up: None,
            lingering: None,
            head: (0, None),
        }
    }

    fn timer(&self, length: Duration) -> BoxFuture<'static, ()> {
        let env = self.env.clone();
        Box::pin(async move { env.sleep(length).await })
    }

    /// Notes that bytes arrived. Between requests they start a head, whose timeout begins now.
    fn received(&mut self, bytes: u64) -> io::Result<()> {
        match self.place.phase() {
            Phase::New | Phase::Idle => {
                self.place.set(Phase::Head);
                self.reading = Some((Phase::Head, self.timer(self.header_timeout)));
                self.head = (0, None);
                self.held_up = None;
            }
            Phase::Head => {}
            _ => {
                self.head = (0, None);
                return Ok(());
            }
        }
        let (length, memory) = &mut self.head;
        *length += bytes;
        let reserved = match memory {
            Some(memory) => memory.resize(*length),
            None if *length <= HEAD_FREE => Ok(()),
            None => self.place.heads().reserve(*length).map(|reservation| *memory = Some(reservation)),
        };
        reserved.map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error))
    }

    /// Called when nothing arrived: fails after the timeout of the phase.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let phase = self.place.phase();
        let patience = match phase {
            Phase::New | Phase::Head => self.header_timeout,
            Phase::Idle => self.idle_timeout,
            _ => {
                self.reading = None;
                self.place.watch(cx.waker());
                return Poll::Pending;
            }
        };
        if self.reading.as_ref().is_none_or(|(of, _)| *of != phase) {
            self.reading = Some((phase, self.timer(patience)));
        }
        let Some((_, timer)) = &mut self.reading else { return Poll::Pending };
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client sends nothing")))
    }

    /// Checks the result of a write: fails when the client reads nothing, or too slowly.
    fn watch(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if self.place.phase() == Phase::Idle {
            self.place.set(Phase::Answer); // another piece of the answer
        }
        if let Poll::Ready(outcome) = written {
            self.writing = None;
            if let (Some((_, taken)), Ok(bytes)) = (&mut self.held_up, &outcome) {
                *taken += *bytes as u64;
            }
            return Poll::Ready(outcome);
        }
        if self.is_too_slow() {
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client reads the answer too slowly",
            )));
        }
        if self.writing.is_none() {
            self.writing = Some(self.timer(self.write_timeout));
        }
        let Some(timer) = &mut self.writing else { return Poll::Pending };
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads no answer")))
    }

    /// Whether the client read less than the minimum rate over a window. Followers of a websocket have a
    /// timeout of their own.
    fn is_too_slow(&mut self) -> bool {
        if self.place.phase() == Phase::Upgraded {
            return false;
        }
        let now = self.env.monotonic();
        let Some((since, taken)) = self.held_up else {
            self.held_up = Some((now, 0));
            return false;
        };
        let elapsed = now.saturating_sub(since);
        if elapsed < RATE_WINDOW {
            return false;
        }
        self.held_up = Some((now, 0));
        taken < self.rate_min.saturating_mul(elapsed.as_secs())
    }
}

impl<S: AsyncRead + Unpin> TimedStream<S> {
    /// Discards input until the client closes its side, or until the timeout.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut buffer = [0; DISCARDED];
        for _ in 0..DISCARDS_PER_TURN {
            if self.lingering.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready()) {
                return Poll::Ready(());
            }
            let mut discarded = ReadBuf::new(&mut buffer);
            let read = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut discarded));
            if read.is_err() || discarded.filled().is_empty() {
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buf) {
            Poll::Pending => self.poll_silence(cx),
            Poll::Ready(result) => {
                let bytes = buf.filled().len() - before;
                if bytes > 0 {
                    self.received(bytes as u64)?;
                }
                Poll::Ready(result)
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        if flushed.is_ready() && self.place.phase() == Phase::Answer {
            self.place.set(Phase::Idle);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
            if !self.place.is_left_unread() {
                return Poll::Ready(Ok(()));
            }
            // As an idle connection it may be evicted for a new one.
            self.place.set(Phase::Idle);
            self.lingering = Some(self.timer(LINGER));
        }
        self.poll_discard(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use sandur_memory::MemoryBudget;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use sandur_listeners::ConnectionCounts;

    use super::*;
    use sandur_config::Settings;
    use sandur_listeners::Connections;

    fn with_stream<T>(
        heads: u64,
        test: impl AsyncFnOnce(Env, TimedStream<DuplexStream>, DuplexStream) -> T,
    ) -> T {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let env = Env::simulated(1, 0);
            let heads = MemoryBudget::root("heads", heads);
            let all = Connections::new(env.clone(), (4, 4), heads, ConnectionCounts::default());
            let place = all.admit([10, 0, 0, 1].into()).await.unwrap();
            let (here, there) = duplex(16 << 10);
            let http = Settings::default().http;
            test(env.clone(), TimedStream::new(here, env, &http, Arc::new(place)), there).await
        })
    }

    /// Writes an answer of 1 MiB to a client that reads `bytes`, pauses, and repeats.
    fn answer_to_a_reader_of(bytes: usize, pause: Duration) -> (io::Result<()>, Duration) {
        with_stream(1 << 20, async |env, mut stream, mut client| {
            stream.place.set(Phase::Request);
            stream.place.set(Phase::Answer);
            let reading = async {
                let mut buffer = vec![0u8; bytes];
                while client.read_exact(&mut buffer).await.is_ok() {
                    env.sleep(pause).await;
                }
            };
            let writing = async {
                let mut written = stream.write_all(&vec![7u8; 1 << 20]).await;
                if written.is_ok() {
                    written = stream.flush().await;
                }
                let (phase, ended) = (stream.place.phase(), env.monotonic());
                drop(stream);
                (written, phase, ended)
            };
            let ((written, phase, ended), ()) = tokio::join!(writing, reading);
            assert_eq!(phase == Phase::Idle, written.is_ok());
            (written, ended)
        })
    }

    #[test]
    fn an_answer_that_is_read_a_byte_at_a_time_times_out() {
        let (written, took) = answer_to_a_reader_of(1, Duration::from_secs(1));
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(took < RATE_WINDOW * 3, "{took:?}");
        let (written, _) = answer_to_a_reader_of(64 << 10, Duration::from_secs(1));
        assert!(written.is_ok(), "{written:?}");
    }

    #[test]
    fn large_heads_are_reserved() {
        let receive = |heads: u64, bytes: usize| {
            with_stream(heads, async |_, mut stream, mut client| {
                let sending = async { client.write_all(&vec![b'a'; bytes]).await };
                let receiving = async {
                    let mut head = vec![0u8; bytes];
                    let read = stream.read_exact(&mut head).await;
                    let used = stream.place.heads().used();
                    drop(stream);
                    (read.map_err(|error| error.kind()), used)
                };
                tokio::join!(receiving, sending).0
            })
        };
        assert_eq!(receive(20_000, 8_000), (Ok(8_000), 0));
        let (read, used) = receive(20_000, 20_000);
        assert!(read.is_ok() && used == 20_000, "{used}");
        assert_eq!(receive(20_000, 40_000).0, Err(io::ErrorKind::OutOfMemory));
    }
}
