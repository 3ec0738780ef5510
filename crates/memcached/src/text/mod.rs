//! The text protocol: lines and their commands. Meta commands, which are lines too, are in
//! [`crate::meta`].
//!
//! A command is an entry of [`crate::commands::TEXT`]. The files here answer commands or families of
//! commands.

pub(crate) mod arithmetic;
pub(crate) mod authenticate;
pub(crate) mod call;
pub(crate) mod control;
pub(crate) mod delete;
pub(crate) mod dispatch;
pub(crate) mod extstore;
pub(crate) mod lru;
pub(crate) mod lru_crawler;
pub(crate) mod multiget;
pub(crate) mod slabs;
pub(crate) mod stats;
pub(crate) mod storage;
pub(crate) mod touch;
pub(crate) mod watch;
