//! Listeners of protocols that are not HTTP, and the bound on connections that all listeners share.
//!
//! **What it is.** [`Connections`] admits connections of every listener, in total and per address.
//! [`carbon`] accepts the points of Graphite's senders over TCP and UDP. To add a protocol: a folder like
//! [`carbon`] with its framing, and a decoder in `sandur_ingest`.
//!
//! **What it is not.** It is no HTTP server, and it decodes nothing itself: it cuts a stream into whole
//! messages and passes them to the service of writes (`sandur_service`).
//!
//! **Life of a message.** A connection is admitted, its bytes are collected in memory that is reserved
//! first, whole messages are cut off and stored, and more is read only when what was read is durable.

mod admission;
pub mod carbon;

pub use admission::{ConnectionCounts, Connections, Phase, Place};
