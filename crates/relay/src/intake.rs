//! Lines and pickles from connections and datagrams into the relay.
//!
//! **Invariants.** A connection costs at most its buffer, or one pickle of [`FRAME_BYTES_MAX`]; a line that
//! is longer than [`LINE_BYTES_MAX`] is counted and skipped up to its end. A connection that says nothing for
//! [`IDLE`] is closed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sandur_base::{Env, ShutdownSignal, Task};
use sandur_carbon::{FRAME_BYTES_MAX, PICKLE};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;

use crate::model::{Listener, Protocol, Transport};
use crate::relay::{Relay, Sorter};

/// Bytes of a line.
pub const LINE_BYTES_MAX: usize = 16 << 10;
/// How long a connection may say nothing.
pub const IDLE: Duration = Duration::from_secs(600);
/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 4_096;
const BUFFER_BYTES: usize = 32 << 10;
/// Bytes of the largest datagram.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Takes lines of a stream until it ends.
pub async fn take_stream(
    env: &Env,
    relay: &Relay,
    mut stream: impl AsyncRead + Unpin,
    stopping: ShutdownSignal,
) {
    let mut lines = Lines::new(relay.sorter());
    relay.connections().fetch_add(1, Ordering::Relaxed);
    loop {
        let room = lines.room();
        let read = tokio::select! {
            biased;
            () = stopping.triggered() => break,
            read = env.timeout(IDLE, stream.read(room)) => read,
        };
        match read {
            Some(Ok(more)) if more > 0 => lines.took(more, relay),
            _ => break,
        }
    }
    lines.finish();
    relay.connections().fetch_sub(1, Ordering::Relaxed);
}

/// What came of a stream and is not yet a whole line.
struct Lines {
    sorter: Sorter,
    buffer: Vec<u8>,
    filled: usize,
    is_skipping: bool,
}

impl Lines {
    fn new(sorter: Sorter) -> Self {
        Self { sorter, buffer: vec![0; BUFFER_BYTES], filled: 0, is_skipping: false }
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    fn took(&mut self, more: usize, relay: &Relay) {
        let end = self.filled + more;
        let mut start = 0;
        for at in memchr::memchr_iter(b'\n', &self.buffer[..end]) {
            let line = &self.buffer[start..at];
            start = at + 1;
            if !std::mem::take(&mut self.is_skipping) {
                self.sorter.take(line.strip_suffix(b"\r").unwrap_or(line));
            }
        }
        self.buffer.copy_within(start..end, 0);
        self.filled = end - start;
        if self.filled > LINE_BYTES_MAX {
            if !std::mem::replace(&mut self.is_skipping, true) {
                relay.counters().rejected.add(1);
            }
            self.filled = 0;
        }
        self.sorter.flush();
    }

    /// What has no end is no line: it may have been cut.
    fn finish(&mut self) {
        self.sorter.flush();
    }
}

/// Takes pickles of a stream until it ends, or one of them is announced to be too long.
pub async fn take_pickles(
    env: &Env,
    relay: &Relay,
    mut stream: impl AsyncRead + Unpin,
    stopping: ShutdownSignal,
) {
    let (mut sorter, mut buffer) = (relay.sorter(), Vec::new());
    relay.connections().fetch_add(1, Ordering::Relaxed);
    loop {
        buffer.reserve(BUFFER_BYTES);
        let read = tokio::select! {
            biased;
            () = stopping.triggered() => break,
            read = env.timeout(IDLE, stream.read_buf(&mut buffer)) => read,
        };
        if !matches!(read, Some(Ok(more)) if more > 0) {
            break;
        }
        let (whole, is_endless) = match PICKLE.framing.cut(&buffer, FRAME_BYTES_MAX) {
            Ok(cut) => (cut.whole, false),
            Err(endless) => (endless.whole, true),
        };
        sorter.take_messages(&PICKLE, &buffer[..whole]);
        sorter.flush();
        buffer.drain(..whole);
        if is_endless {
            relay.counters().rejected.add(1);
            break;
        }
    }
    relay.connections().fetch_sub(1, Ordering::Relaxed);
}

/// A listener of the system; the address is the one that it got.
pub async fn listen(
    env: &Env,
    relay: &Relay,
    listener: &Listener,
    stopping: ShutdownSignal,
) -> std::io::Result<(SocketAddr, Task<()>)> {
    match (listener.transport, listener.protocol) {
        (Transport::Udp, Protocol::Pickle) => Err(std::io::Error::other("pickles come by TCP alone")),
        (Transport::Tcp, protocol) => {
            let socket = TcpListener::bind(&listener.address).await?;
            let address = socket.local_addr()?;
            let accepting = accept(env.clone(), relay.clone(), socket, protocol, stopping);
            Ok((address, env.spawn("connections of the relay", accepting)))
        }
        (Transport::Udp, Protocol::Line) => {
            let socket = UdpSocket::bind(&listener.address).await?;
            let address = socket.local_addr()?;
            Ok((address, env.spawn("datagrams of the relay", datagrams(relay.clone(), socket, stopping))))
        }
    }
}

async fn accept(env: Env, relay: Relay, socket: TcpListener, protocol: Protocol, stopping: ShutdownSignal) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections: Vec<Task<()>> = Vec::new();
    loop {
        let accepted = tokio::select! {
            () = stopping.triggered() => break,
            accepted = socket.accept() => accepted,
        };
        connections.retain(|connection| !connection.is_finished());
        match accepted {
            Ok((stream, _)) => {
                // One that finds no place is closed at once.
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                let (own, relay, stopping) = (env.clone(), relay.clone(), stopping.clone());
                connections.push(env.spawn("a connection of the relay", async move {
                    match protocol {
                        Protocol::Line => take_stream(&own, &relay, stream, stopping).await,
                        Protocol::Pickle => take_pickles(&own, &relay, stream, stopping).await,
                    }
                    drop(place);
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                env.sleep(Duration::from_millis(100)).await;
            }
        }
    }
    for connection in connections {
        // They end by themselves once they see the shutdown.
        let _ = connection.join().await;
    }
}

async fn datagrams(relay: Relay, socket: UdpSocket, stopping: ShutdownSignal) {
    let mut sorter = relay.sorter();
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let received = tokio::select! {
            () = stopping.triggered() => break,
            received = socket.recv(&mut buffer) => received,
        };
        // An error is that of an earlier answer; the socket stays good.
        let Ok(bytes) = received else { continue };
        for line in buffer[..bytes].split(|byte| *byte == b'\n') {
            sorter.take(line.strip_suffix(b"\r").unwrap_or(line));
        }
        sorter.flush();
    }
}
