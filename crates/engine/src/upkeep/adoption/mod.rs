//! The rows of other writers: follows the WAL of live writers, adopts dead ones.

mod adopt;
mod follow;
mod other_writers;
mod read_frame;
mod tail;

pub(crate) use follow::WriterFollower;
pub(crate) use other_writers::OtherWriters;
