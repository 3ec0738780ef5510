//! The table of protocols.

use std::ops::ControlFlow;

use crate::framing::Framing;
use crate::point::Sink;
use crate::{pickle, plaintext, protobuf};

/// Decodes bytes; the number is the current time in seconds since the epoch. Returns `Break` when the
/// sink does.
type Read = fn(&[u8], i64, &mut dyn Sink) -> ControlFlow<()>;

/// One of carbon's protocols.
pub struct Protocol {
    /// The name in options and counters.
    pub name: &'static str,
    /// How messages are delimited on a connection.
    pub framing: Framing,
    /// Decodes complete messages of a connection, as [`Framing::cut`] delimits them.
    pub read: Read,
    /// Decodes one datagram, or the body of a request.
    pub read_alone: Read,
    /// Content types of requests that have bodies in this protocol.
    pub content_types: &'static [&'static str],
}

/// `path value timestamp`, one per line.
pub static PLAINTEXT: Protocol = Protocol {
    name: "plaintext",
    framing: Framing::Lines,
    read: plaintext::read,
    read_alone: plaintext::read_datagram,
    content_types: &["text/plain"],
};

/// Lists of `(path, (timestamp, value))` as Python pickles them.
pub static PICKLE: Protocol = Protocol {
    name: "pickle",
    framing: Framing::Lengths,
    read: |bytes, now, sink| read_frames(bytes, now, sink, pickle::read),
    read_alone: pickle::read,
    content_types: &["application/python-pickle"],
};

/// go-carbon's `Payload` messages.
pub static PROTOBUF: Protocol = Protocol {
    name: "protobuf",
    framing: Framing::Lengths,
    read: |bytes, now, sink| read_frames(bytes, now, sink, protobuf::read),
    read_alone: protobuf::read,
    content_types: &["application/protobuf", "application/x-protobuf"],
};

/// All protocols.
pub static PROTOCOLS: [&Protocol; 3] = [&PLAINTEXT, &PICKLE, &PROTOBUF];

fn read_frames(mut bytes: &[u8], now: i64, sink: &mut dyn Sink, read: Read) -> ControlFlow<()> {
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((payload, after)) = rest.split_at_checked(length) else { break };
        read(payload, now, sink)?;
        bytes = after;
    }
    ControlFlow::Continue(())
}
