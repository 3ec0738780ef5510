//! Encodings of answers: JSON in Python's form, msgpack, pickle and protobuf.

pub(crate) mod json;
pub(crate) mod msgpack;
pub(crate) mod pickle;
pub(crate) mod protobuf;
