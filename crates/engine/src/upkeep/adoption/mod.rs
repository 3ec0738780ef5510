//! The rows of other writers: follows the WAL of live writers, adopts dead ones.

pub(crate) mod adopt;
pub(crate) mod follow_writers;
pub(crate) mod read_frame;
