//! Receives lines and pickles from connections and datagrams.
//!
//! **Invariants.** A connection uses no more memory than its place grants ([`crate::senders`]), and at
//! most one pickle of [`FRAME_BYTES_MAX`]. A line longer than [`LINE_BYTES_MAX`] is counted and skipped
//! up to its end. The relay closes a connection that is silent for [`IDLE`], one whose line or pickle is
//! not complete within [`MESSAGE_TIMEOUT`], and one that begins with an HTTP request; of the last it
//! stores nothing.

use std::net::SocketAddr;
use std::time::Duration;

use sandur_base::begins_http_request;
use sandur_carbon::{FRAME_BYTES_MAX, PICKLE};
use sandur_runtime::{Env, ShutdownSignal, Task};
use tokio::io::AsyncRead;
use tokio::net::{TcpListener, UdpSocket};

use crate::buffer::Buffer;
use crate::model::{Listener, Protocol, Transport};
use crate::relay::{Relay, Sorter};
use crate::senders::{Closed, MESSAGE_TIMEOUT, Place, Senders};

/// The largest length of a line in bytes.
pub const LINE_BYTES_MAX: usize = 16 << 10;
/// How long a connection may be silent.
pub const IDLE: Duration = Duration::from_secs(600);
/// Bytes of the largest datagram.
const DATAGRAM_BYTES: usize = 64 << 10;

/// Receives from a connection until it ends, must be closed, or the relay stops.
pub async fn take(
    place: Place,
    protocol: Protocol,
    stream: impl AsyncRead + Unpin,
    stopping: ShutdownSignal,
) {
    let received = tokio::select! {
        biased;
        () = stopping.triggered() => Ok(()),
        received = receive(&place, protocol, stream) => received,
    };
    if let Err(reason) = received {
        place.closed(&reason);
    }
}

async fn receive(
    place: &Place,
    protocol: Protocol,
    mut stream: impl AsyncRead + Unpin,
) -> Result<(), Closed> {
    let (senders, env) = (place.senders(), place.senders().env());
    let mut buffer = Buffer::new(place.reservation()).await?;
    let mut messages = Messages { protocol, is_skipping: false };
    let (mut heard, mut incomplete, mut has_begun) = (env.monotonic(), None, false);
    loop {
        let until = incomplete.map_or(heard + IDLE, |since: Duration| since + MESSAGE_TIMEOUT);
        let patience = until.saturating_sub(env.monotonic());
        // A sender of single bytes always has one ready, so the timeout of the read alone would never
        // end it.
        let read = match patience.is_zero() {
            true => None,
            false => env.timeout(patience, buffer.read(&mut stream)).await.transpose()?,
        };
        match read {
            Some(Ok(more)) if more > 0 => heard = env.monotonic(),
            Some(_) => return Ok(()),
            None => return incomplete.map_or(Ok(()), |_| Err(Closed::Slow)),
        }
        if !has_begun && begins_http_request(&buffer.bytes) {
            return Err(Closed::Http);
        }
        let taken = senders.sort(|sorter| messages.take(&mut buffer.bytes, sorter, senders.relay()));
        let Some(taken) = taken else { return Ok(()) };
        has_begun |= taken.was_whole || messages.is_skipping;
        if taken.was_whole || !taken.is_incomplete {
            incomplete = None;
        }
        if taken.is_incomplete {
            incomplete = incomplete.or(Some(heard));
        }
        if incomplete.is_none_or(|since| since == heard) {
            buffer.set_incomplete(taken.is_incomplete);
        }
        buffer.fit(taken.next).await?;
    }
}

/// Splits the bytes of a connection into messages.
struct Messages {
    protocol: Protocol,
    /// Whether the current line is too long; its rest is skipped.
    is_skipping: bool,
}

/// What one pass over a buffer found.
struct Taken {
    /// Whether a message was complete.
    was_whole: bool,
    /// Whether the buffer ends within a message.
    is_incomplete: bool,
    /// Size in bytes of the message that has begun, as far as it is known.
    next: usize,
}

impl Messages {
    /// Removes the complete messages from the buffer. Returns `None` when the rest of the connection
    /// cannot be parsed.
    fn take(&mut self, bytes: &mut Vec<u8>, sorter: &mut Sorter, relay: &Relay) -> Option<Taken> {
        match self.protocol {
            Protocol::Line => Some(self.take_lines(bytes, sorter, relay)),
            Protocol::Pickle => take_pickles(bytes, sorter, relay),
        }
    }

    /// A line without its end is ignored, because it may have been cut.
    fn take_lines(&mut self, bytes: &mut Vec<u8>, sorter: &mut Sorter, relay: &Relay) -> Taken {
        let mut start = 0;
        for at in memchr::memchr_iter(b'\n', bytes) {
            let line = &bytes[start..at];
            start = at + 1;
            if !std::mem::take(&mut self.is_skipping) {
                sorter.take(line.strip_suffix(b"\r").unwrap_or(line));
            }
        }
        bytes.drain(..start);
        if bytes.len() > LINE_BYTES_MAX && !std::mem::replace(&mut self.is_skipping, true) {
            relay.counters().rejected.add(1);
        }
        if self.is_skipping {
            bytes.clear();
        }
        let is_incomplete = self.is_skipping || !bytes.is_empty();
        Taken { was_whole: start > 0, is_incomplete, next: LINE_BYTES_MAX }
    }
}

fn take_pickles(bytes: &mut Vec<u8>, sorter: &mut Sorter, relay: &Relay) -> Option<Taken> {
    let cut = PICKLE.framing.cut(bytes, FRAME_BYTES_MAX);
    let whole = match cut {
        Ok(cut) => cut.whole,
        Err(endless) => endless.whole,
    };
    sorter.take_messages(&PICKLE, &bytes[..whole]);
    bytes.drain(..whole);
    let Ok(cut) = cut else {
        relay.counters().rejected.add(1);
        return None;
    };
    Some(Taken { was_whole: whole > 0, is_incomplete: !bytes.is_empty(), next: cut.next })
}

/// Opens a listener. Returns the address that the system assigned.
pub async fn listen(
    senders: &Senders,
    listener: &Listener,
    stopping: ShutdownSignal,
) -> std::io::Result<(SocketAddr, Task<()>)> {
    let env = senders.env();
    match (listener.transport, listener.protocol) {
        (Transport::Udp, Protocol::Pickle) => {
            Err(std::io::Error::other("pickles are accepted over TCP only"))
        }
        (Transport::Tcp, protocol) => {
            let socket = TcpListener::bind(&listener.address).await?;
            let address = socket.local_addr()?;
            let accepting = accept(env.clone(), senders.clone(), socket, protocol, stopping);
            Ok((address, env.spawn("connections of the relay", accepting)))
        }
        (Transport::Udp, Protocol::Line) => {
            let socket = UdpSocket::bind(&listener.address).await?;
            let address = socket.local_addr()?;
            let receiving = datagrams(senders.clone(), socket, stopping);
            Ok((address, env.spawn("datagrams of the relay", receiving)))
        }
    }
}

async fn accept(
    env: Env,
    senders: Senders,
    socket: TcpListener,
    protocol: Protocol,
    stopping: ShutdownSignal,
) {
    let mut connections: Vec<Task<()>> = Vec::new();
    loop {
        let accepted = tokio::select! {
            () = stopping.triggered() => break,
            accepted = socket.accept() => accepted,
        };
        connections.retain(|connection| !connection.is_finished());
        match accepted {
            Ok((stream, peer)) => {
                // Without a free place the connection is closed at once.
                let Some(place) = senders.admit(peer.ip()) else { continue };
                let taking = take(place, protocol, stream, stopping.clone());
                connections.push(env.spawn("a connection of the relay", taking));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                env.sleep(Duration::from_millis(100)).await;
            }
        }
    }
    for connection in connections {
        // The connections end by themselves once they see the shutdown.
        let _ = connection.join().await;
    }
}

async fn datagrams(senders: Senders, socket: UdpSocket, stopping: ShutdownSignal) {
    let relay = senders.relay();
    let mut sorter = relay.sorter();
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let received = tokio::select! {
            () = stopping.triggered() => break,
            received = socket.recv(&mut buffer) => received,
        };
        let Ok(bytes) = received else {
            // The socket stays usable. The pause prevents a busy loop if it keeps failing.
            senders.env().sleep(Duration::from_millis(100)).await;
            continue;
        };
        if begins_http_request(&buffer[..bytes]) {
            relay.counters().rejected.add(1);
            continue;
        }
        for line in buffer[..bytes].split(|byte| *byte == b'\n') {
            sorter.take(line.strip_suffix(b"\r").unwrap_or(line));
        }
        sorter.flush();
    }
}
