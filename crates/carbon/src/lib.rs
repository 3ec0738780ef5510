//! Carbon's protocols: bytes become points of Graphite's.
//!
//! **What it is.** Plaintext lines, pickles and protobuf messages, read as carbon reads them: whatever number
//! Python's `float` takes, a timestamp of -1 for now, a value that is no number dropped. One file per
//! protocol, registered in [`PROTOCOLS`].
//!
//! **What it is not.** No sockets, no clock, no storage and no labels: names are handed on as they were sent.
//!
//! **Life of a connection.** Its owner collects bytes, asks [`Framing::cut`] how many of them are whole
//! messages, and gives those to [`Protocol::read`], which hands each point, and each message that it refuses,
//! to a [`Sink`]. A datagram and the body of a request are read whole, by [`Protocol::read_alone`].
//!
//! ```
//! use std::ops::ControlFlow;
//! use sandur_carbon::{PLAINTEXT, Point, Refusal, Sink};
//!
//! #[derive(Default)]
//! struct Printed(Vec<String>);
//! impl Sink for Printed {
//!     fn point(&mut self, point: Point<'_>) -> ControlFlow<()> {
//!         self.0.push(format!("{} {} {}", point.name, point.value, point.seconds));
//!         ControlFlow::Continue(())
//!     }
//!     fn refused(&mut self, refusal: Refusal, _message: &[u8]) {
//!         self.0.push(refusal.reason().name().to_owned());
//!     }
//! }
//!
//! let mut printed = Printed::default();
//! let now = 1_795_176_000;
//! let _ = (PLAINTEXT.read)(b"servers.web1.load 0.5 -1\nservers.web1.load\n", now, &mut printed);
//! assert_eq!(printed.0, ["servers.web1.load 0.5 1795176000", "fields"]);
//! ```
//!
//! **Invariants.** No input makes a reader panic, call itself, or take memory that is not in proportion to
//! the message; a pickle runs no code and makes at most [`PICKLE_VALUES_MAX`] values. What one message does
//! wrong costs that message alone.

mod datagram;
mod decimal;
mod framing;
mod pickle;
mod pickle_stack;
mod pickle_text;
mod plaintext;
mod point;
mod protobuf;
mod protocol;
mod python_number;
mod refusal;

pub use datagram::append_datagram;
pub use framing::{Cut, Endless, FRAME_BYTES_MAX, Framing, LINE_BYTES_MAX};
pub use pickle_stack::PICKLE_VALUES_MAX;
pub use plaintext::{Line, read_line};
pub use point::{Point, Sink};
pub use protocol::{PICKLE, PLAINTEXT, PROTOBUF, PROTOCOLS, Protocol};
pub use refusal::{Reason, Refusal};
