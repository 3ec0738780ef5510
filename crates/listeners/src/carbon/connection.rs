//! A connection of Carbon: it is read while its bytes that are not yet durable are within the window.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::{BoxFuture, begins_http_request};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::Carbon;
use super::buffer::{Buffer, Rest};
use super::intake::{Source, reject, report, store};
use super::unpacked::{Beginning, Broken, Packed, Unpacked, beginning};
use crate::admission::{Phase, Place};

/// How long a connection is still read after a stop request, as long as bytes arrive.
const LAST_READ: Duration = Duration::from_secs(2);
/// Maximum pause between bytes during that time.
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// Part of the memory of one request that a block may use: points with new names take about 24 times as
/// much, and the buffers of other connections need room too.
const RESERVATION_SHARE: u64 = 64;

/// The error for a connection or datagram that begins with an HTTP request.
pub const HTTP_REFUSED: &str = "it begins with an HTTP request, which a web page may have made; programs \
                                that use HTTP must send points to /graphite/carbon of the HTTP listener";

/// A connection.
pub struct Connection {
    pub carbon: Carbon,
    pub source: Source,
    pub place: Arc<Place>,
    /// Slots of compressed connections.
    pub unpacking: Arc<Semaphore>,
}

enum Input {
    Plain(TcpStream),
    /// Compressed, waiting for memory.
    Opening(BoxFuture<'static, Result<Unpacked, Broken>>),
    Unpacked(Unpacked),
}

/// The next event.
enum Event {
    Stored(Rest),
    Read(Result<usize, Broken>),
    Late(&'static str),
    Stop,
}

impl Input {
    /// Reads into the free space of a buffer; 0 at the end.
    async fn read(&mut self, carbon: &Carbon, buffer: &mut Buffer) -> Result<usize, Broken> {
        if let Self::Opening(opening) = self {
            *self = Self::Unpacked(opening.await?);
        }
        match self {
            Self::Plain(stream) => {
                if buffer.is_released() {
                    stream.readable().await?;
                }
                buffer.make_room(carbon, 0).await;
                Ok(stream.read_buf(&mut buffer.bytes).await?)
            }
            Self::Unpacked(unpacked) => {
                make_room(carbon, buffer).await?;
                unpacked.read(&mut buffer.bytes).await
            }
            Self::Opening(_) => Ok(0),
        }
    }
}

/// Waits for memory while holding a window. This has a time limit while resident memory is short, so that
/// no number of windows can keep it short; blocks of other connections release their memory when they are
/// stored.
async fn make_room(carbon: &Carbon, buffer: &mut Buffer) -> Result<(), Broken> {
    let patience = carbon.options.message_timeout;
    while carbon.env.timeout(patience, buffer.make_room(carbon, 0)).await.is_none() {
        if carbon.writes.pressure().is_high() {
            let text = format!(
                "the server was short of memory (--memory-limit) for {patience:?} (carbon.message_timeout), \
                 and the stream uses a window"
            );
            return Err(Broken::by_us("memory", text));
        }
    }
    Ok(())
}

struct Running {
    connection: Connection,
    /// Open until everything is stored: a sender that waits for the end then knows that.
    input: Option<Input>,
    has_ended: bool,
    buffer: Buffer,
    storing: Option<BoxFuture<'static, Rest>>,
    /// Whether it is known that the stream is plain, or how it is compressed.
    is_clear: bool,
    /// Whether messages were taken from the stream, so that the buffer does not start at its beginning.
    has_begun: bool,
    /// When the last bytes arrived.
    heard: Duration,
    /// Since when the current message is incomplete.
    incomplete: Option<Duration>,
    /// When a stop was requested.
    stopped: Option<Duration>,
}

impl Connection {
    /// Half of the window: one half is being stored while the other one is received.
    fn half(&self) -> usize {
        let most = (self.carbon.options.window / 2)
            .min(self.carbon.writes.memory().reservation_max() / RESERVATION_SHARE);
        usize::try_from(most).unwrap_or(usize::MAX).max(self.message_max().saturating_add(1))
    }

    /// Bytes of the longest message.
    fn message_max(&self) -> usize {
        let frame = usize::try_from(self.carbon.options.max_frame_bytes).unwrap_or(usize::MAX);
        match self.source.protocol.framing {
            sandur_carbon::Framing::Lines => sandur_carbon::LINE_BYTES_MAX + 1,
            sandur_carbon::Framing::Lengths => frame.saturating_add(4),
        }
    }

    fn empty(&self) -> Buffer {
        Buffer::new(&self.carbon, self.source.peer, self.half())
    }

    /// Serves the connection until its end: all complete messages are stored.
    pub async fn serve(self, stream: TcpStream) {
        let (buffer, heard) = (self.empty(), self.carbon.env.monotonic());
        let running = Running {
            connection: self,
            input: Some(Input::Plain(stream)),
            has_ended: false,
            buffer,
            storing: None,
            is_clear: false,
            has_begun: false,
            heard,
            incomplete: None,
            stopped: None,
        };
        running.run().await;
    }
}

impl Running {
    async fn run(mut self) {
        loop {
            match self.next().await {
                Event::Stored(rest) => {
                    self.storing = None;
                    self.buffer.take_back(rest);
                }
                Event::Read(Ok(0)) => self.end(None),
                Event::Read(Ok(_)) => {
                    self.heard = self.connection.carbon.env.monotonic();
                    self.connection.place.set(Phase::Request);
                }
                Event::Read(Err(broken)) => self.break_off(broken),
                Event::Late(reason) => self.end(Some(reason)),
                Event::Stop => {
                    let now = self.connection.carbon.env.monotonic();
                    self.stopped = Some(now);
                    self.heard = now;
                }
            }
            if !self.is_clear {
                self.look_at_beginning();
            }
            if self.storing.is_none() && self.is_clear {
                self.refuse_http();
                self.store_whole();
            }
            if self.storing.is_none() {
                if self.has_ended {
                    break;
                }
                self.buffer.release_if_empty();
                let is_empty = self.buffer.bytes.is_empty();
                // It may be closed in favour of others, preferably without an incomplete message.
                self.connection.place.set(if is_empty { Phase::Idle } else { Phase::Head });
            }
        }
        if !self.buffer.bytes.is_empty() {
            let text = "the connection ended within a message".to_owned();
            let Connection { carbon, source, .. } = &self.connection;
            reject(carbon, source, "incomplete", text, &self.buffer.bytes);
        }
    }

    /// Stops reading, with the server's reason if it has one.
    fn end(&mut self, reason: Option<&'static str>) {
        self.has_ended = true;
        self.is_clear = true;
        if let Some(reason) = reason {
            self.connection.carbon.metrics.ended(reason);
        }
    }

    /// Stops reading, and shows the reason to users.
    fn break_off(&mut self, Broken { reason, text }: Broken) {
        tracing::debug!(text, "a connection of Carbon ended");
        if let Some(reason) = reason {
            let Connection { carbon, source, .. } = &self.connection;
            report(carbon, source, reason, text);
        }
        self.end(reason);
    }

    async fn next(&mut self) -> Event {
        let Self { connection, input, buffer, storing, stopped, has_ended, .. } = self;
        let Connection { carbon, place, .. } = &*connection;
        let Some(input) = input.as_mut() else { return Event::Read(Ok(0)) };
        let is_open = !*has_ended;
        let (patience, late) = patience(carbon, (self.heard, self.incomplete, *stopped), storing.is_some());
        tokio::select! {
            rest = ended(storing), if storing.is_some() => Event::Stored(rest),
            read = input.read(carbon, buffer), if is_open && buffer.has_room() => Event::Read(read),
            () = carbon.env.sleep(patience), if is_open => Event::Late(late),
            () = carbon.stopping.triggered(), if is_open && stopped.is_none() => Event::Stop,
            () = place.evicted(), if is_open => Event::Late("others_need_the_place"),
        }
    }

    /// Detects whether the stream is plain, or how it is compressed.
    fn look_at_beginning(&mut self) {
        match beginning(&self.buffer.bytes) {
            Beginning::Unclear if self.buffer.bytes.is_empty() => {}
            Beginning::Unclear => self.incomplete = self.incomplete.or(Some(self.heard)),
            Beginning::Plain => self.is_clear = true,
            Beginning::Packed(packing) => {
                (self.is_clear, self.incomplete) = (true, None);
                let first = std::mem::take(&mut self.buffer.bytes);
                let Some(Input::Plain(stream)) = self.input.take() else { return };
                let Connection { carbon, source, unpacking, .. } = &self.connection;
                let packed = Packed { packing, first, stream, peer: source.peer };
                let opening = Unpacked::open(carbon.clone(), Arc::clone(unpacking), packed);
                self.input = Some(Input::Opening(Box::pin(opening)));
            }
        }
    }

    /// Closes a connection that begins with an HTTP request: a web page may have sent it and chosen the
    /// lines of its body.
    fn refuse_http(&mut self) {
        if !self.has_begun && begins_http_request(&self.buffer.bytes) {
            self.buffer.bytes.clear();
            self.break_off(Broken::by_us("http_request", HTTP_REFUSED.to_owned()));
        }
    }

    /// Starts to store the complete messages in the buffer.
    fn store_whole(&mut self) {
        let Connection { carbon, source, .. } = &self.connection;
        let frame_max = usize::try_from(carbon.options.max_frame_bytes).unwrap_or(usize::MAX);
        let (whole, endless) = match source.protocol.framing.cut(&self.buffer.bytes, frame_max) {
            Ok(cut) => (cut.whole, None),
            Err(endless) => (endless.whole, Some(endless.reason)),
        };
        if let Some(reason) = endless {
            let text = sandur_carbon::Refusal::of(reason).to_string();
            reject(carbon, source, reason.name(), text, &self.buffer.bytes[whole..]);
            self.buffer.bytes.truncate(whole);
            self.end(Some(reason.name()));
        }
        let is_incomplete = whole < self.buffer.bytes.len();
        let Connection { carbon, source, .. } = &self.connection;
        if whole > 0 {
            self.has_begun = true;
            let block = self.buffer.split(self.connection.empty(), whole);
            let (carbon, source) = (carbon.clone(), source.clone());
            self.storing = Some(Box::pin(async move {
                store(carbon, source, block.bytes).await;
                block.rest
            }));
            self.incomplete = None;
        }
        if is_incomplete && self.incomplete.is_none() {
            self.incomplete = Some(self.connection.carbon.env.monotonic());
        }
    }
}

/// The end of the current store operation.
async fn ended(storing: &mut Option<BoxFuture<'static, Rest>>) -> Rest {
    match storing {
        Some(storing) => storing.await,
        None => std::future::pending().await,
    }
}

/// How long to wait for the next bytes, and the reason if they take longer.
fn patience(
    carbon: &Carbon,
    (heard, incomplete, stopped): (Duration, Option<Duration>, Option<Duration>),
    is_storing: bool,
) -> (Duration, &'static str) {
    let (now, settings) = (carbon.env.monotonic(), &carbon.options);
    let (until, late) = match (stopped, incomplete) {
        (Some(stopped), _) => ((heard + LAST_PAUSE).min(stopped + LAST_READ), "stopping"),
        // While a block is stored the connection may not be read: the wait is not the sender's fault.
        (None, _) if is_storing => (now + settings.idle_timeout, "idle"),
        (None, Some(since)) => (since + settings.message_timeout, "message_timeout"),
        (None, None) => (heard + settings.idle_timeout, "idle"),
    };
    (until.saturating_sub(now), late)
}
