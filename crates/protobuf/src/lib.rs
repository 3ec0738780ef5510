//! Protobuf's wire format: a reader, a writer, and the messages that several crates write.
//!
//! **What it is.** The only code that knows tags, varints and length prefixes. [`Reader`] returns the
//! fields of a message one after the other. It borrows from the message and allocates nothing, so the
//! caller decides what is kept and reserves memory for it first. [`Writer`] appends fields to a buffer.
//! [`loki`] and [`prometheus`] write the messages of pushes and of remote read; the messages that one
//! crate alone reads or writes are in that crate.
//!
//! **What it is not.** No schemas and no types for messages: each decoder matches field numbers, and
//! builds its own batch. Decision 0024 (`docs/decisions`) has the measurements against `prost`. No gRPC:
//! its framing is in `http`.
//!
//! **Example.**
//!
//! ```
//! use sandur_protobuf::{Reader, Wire, Writer as _};
//!
//! let mut message = Vec::new();
//! message.text(1, "up");
//! message.message(2, |sample| {
//!     sample.double(1, 0.5);
//!     sample.varint(2, 1_795_176_000_000);
//! });
//!
//! let mut reader = Reader::new(&message);
//! assert_eq!(reader.key(), Ok(Some((1, Wire::Bytes))));
//! assert_eq!(reader.bytes(), Ok(&b"up"[..]));
//! assert_eq!(reader.key(), Ok(Some((2, Wire::Bytes))));
//! let mut sample = reader.message().unwrap();
//! assert_eq!(sample.key(), Ok(Some((1, Wire::Fixed64))));
//! assert_eq!(sample.double(), Ok(0.5));
//! assert_eq!(reader.key(), Ok(None));
//! ```
//!
//! **Invariants.** No input makes the reader panic. It never returns bytes outside of the message, and it
//! returns no field whose value is truncated. What the writer appends is read back unchanged.

pub mod loki;
pub mod prometheus;
mod reader;
mod writer;

pub use reader::{Malformed, Reader, Wire, unzigzag};
pub use writer::{Open, Writer, zigzag};
