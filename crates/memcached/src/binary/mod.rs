//! The binary protocol: deprecated by memcached, the default of EVCache's client.
//!
//! A packet is a header of 24 bytes, extras, a key and a value. A command is one file here and one line
//! of [`crate::commands::BINARY`]; its quiet form is a second opcode that suppresses the expected
//! answer. The common parts of several commands are in `retrieval`, `storage`, `arithmetic` and `sasl`.

pub(crate) mod add;
pub(crate) mod append;
mod arithmetic;
pub(crate) mod call;
pub(crate) mod decrement;
pub(crate) mod delete;
pub(crate) mod dispatch;
pub(crate) mod flush;
pub(crate) mod gat;
pub(crate) mod gatk;
pub(crate) mod get;
pub(crate) mod getk;
pub(crate) mod header;
pub(crate) mod increment;
pub(crate) mod noop;
pub(crate) mod prepend;
pub(crate) mod quit;
pub(crate) mod replace;
mod retrieval;
mod sasl;
pub(crate) mod sasl_auth;
pub(crate) mod sasl_list_mechanisms;
pub(crate) mod sasl_step;
pub(crate) mod set;
pub(crate) mod stat;
mod storage;
pub(crate) mod touch;
pub(crate) mod version;
