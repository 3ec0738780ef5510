//! WAL segments: frames of acknowledged batches.
//!
//! A frame is what one group commit makes durable: batches of any number of tenants. In a bucket a frame
//! is one object; in a local directory frames follow each other in a file.
//!
//! **Writing.** [`Record::of`] prepares a batch (on any thread), [`encode_frame`] puts records together; the
//! text of a batch is not copied: it is a piece of the output of its own, in the form in which it
//! arrived when that form is a codec of the WAL. [`encode_fence`] makes the frame that seals a writer.
//!
//! **Reading.** [`FrameReader`] over a file, [`Frame::from_object`] over an object; [`Frame::batch`] decodes
//! one record.
//!
//! Invariants: header and body have checksums, compared before anything is believed; every length is
//! checked before memory is taken; a frame that was not written completely at the end of a file is
//! [`crate::Error::Torn`], anything damaged before a later frame is an error of its own.

mod columns;
mod frame;
mod reader;
mod record;
mod samples;
#[cfg(test)]
mod tests;

pub use frame::{
    FrameHeader, FrameId, FrameKind, HEADER_LEN, VERSION, VERSION_MAX, encode_fence, encode_frame,
};
pub use reader::{Frame, FrameReader};
pub use record::{ARENA_BYTES_MAX, Record};
