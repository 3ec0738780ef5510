//! WAL segments: frames of acknowledged batches.
//!
//! A frame is the unit that one group commit makes durable: batches of any number of tenants. In a bucket
//! a frame is one object; in a local directory a file holds consecutive frames.
//!
//! **Writing.** [`Record::of`] prepares a batch (on any thread), [`encode_frame`] combines records. The
//! text of a batch is not copied: it is a separate piece of the output, in the form in which it arrived
//! if that form is a codec of the WAL. [`encode_fence`] creates the frame that seals a writer.
//!
//! **Reading.** [`FrameReader`] over a file, [`Frame::from_object`] over an object; [`Frame::batch`]
//! decodes one record.
//!
//! Invariants: header and body have checksums, which are verified before any of their bytes are used;
//! every length is checked before memory is reserved; a frame at the end of a file that was not written
//! completely is [`crate::Error::Torn`], and damage before a later frame is a different error.

mod columns;
mod frame;
mod limits;
mod reader;
mod record;
mod samples;
#[cfg(test)]
mod tests;

pub use frame::{
    FrameHeader, FrameId, FrameKind, HEADER_LEN, encode_fence, encode_frame, encode_stamped_frame,
};
pub use limits::{ARENA_BYTES_MAX, VERSION, VERSION_MAX};
pub use reader::{Frame, FrameReader};
pub use record::Record;
