//! How answers are written: JSON as Python writes it, msgpack, pickle and protobuf.

pub(crate) mod json;
pub(crate) mod msgpack;
pub(crate) mod pickle;
pub(crate) mod protobuf;
