//! Decodes carbon's protocols to Graphite points.
//!
//! **What it is.** Plaintext lines, pickles and protobuf messages, decoded as carbon does: every number
//! that Python's `float` accepts is accepted, a timestamp of -1 means now, and a value of NaN is
//! dropped. There is one file per protocol, registered in [`PROTOCOLS`].
//!
//! **What it is not.** It has no sockets, clock, storage or labels: names are passed on as they were
//! sent.
//!
//! **Life of a connection.** The owner of a connection collects bytes and asks [`Framing::cut`] how many
//! of them are complete messages. It passes those to [`Protocol::read`], which passes each point and
//! each refused message to a [`Sink`]. A datagram, or the body of a request, is passed as a whole to
//! [`Protocol::read_alone`].
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
//! **Invariants.** No input makes a reader panic, recurse, or use memory out of proportion to the
//! message. A pickle runs no code and creates at most [`PICKLE_VALUES_MAX`] values. An error in one
//! message affects only that message.

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
