//! The binary protocol: deprecated by memcached, the default of EVCache's client.
//!
//! A packet is a header of 24 bytes, extras, a key and a value. A command is an entry of
//! [`crate::commands::BINARY`]; its quiet form is a second opcode that suppresses the expected answer.
//! The files here answer commands or families of commands.

pub(crate) mod arithmetic;
pub(crate) mod call;
pub(crate) mod delete;
pub(crate) mod dispatch;
pub(crate) mod flush;
pub(crate) mod header;
pub(crate) mod retrieval;
pub(crate) mod sasl;
pub(crate) mod stat;
mod storage;
