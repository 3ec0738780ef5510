//! The rows of other writers: follows the WAL of live writers, adopts dead ones.

mod adopt;
mod follow;
mod memory;
mod other_writers;
mod pace;
mod read_frame;
mod read_slots;
mod tail;

pub(crate) use follow::WriterFollower;
pub(crate) use other_writers::OtherWriters;
