//! The text protocol: lines and their commands. Meta commands, which are lines too, are in
//! [`crate::meta`].
//!
//! A command is one file here and one line of [`crate::commands::TEXT`]. The common parts of several
//! commands are in `multiget`, `storage` and `arithmetic`.

pub(crate) mod add;
pub(crate) mod append;
pub(crate) mod arithmetic;
pub(crate) mod authenticate;
pub(crate) mod cache_memlimit;
pub(crate) mod call;
pub(crate) mod cas;
pub(crate) mod debugtime;
pub(crate) mod decr;
pub(crate) mod delete;
pub(crate) mod dispatch;
pub(crate) mod extstore;
pub(crate) mod flush_all;
pub(crate) mod gat;
pub(crate) mod gats;
pub(crate) mod get;
pub(crate) mod gets;
pub(crate) mod incr;
pub(crate) mod lru;
pub(crate) mod lru_crawler;
pub(crate) mod misbehave;
pub(crate) mod multiget;
pub(crate) mod prepend;
pub(crate) mod quit;
pub(crate) mod refresh_certs;
pub(crate) mod replace;
pub(crate) mod set;
pub(crate) mod shutdown;
pub(crate) mod slabs;
pub(crate) mod stats;
pub(crate) mod storage;
pub(crate) mod touch;
pub(crate) mod verbosity;
pub(crate) mod version;
pub(crate) mod watch;
