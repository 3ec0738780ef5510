//! Calls between the processes of a cluster, over connections that only holders of its secret can open.
//!
//! **What it is.** A server ([`PeerServer`]) and a client ([`PeerCaller`]) for a few calls ([`Request`],
//! [`Answer`]): the newest frames of a process's WAL, pieces of blocks from a process's cache, the queries
//! that run in a process and the end of one, its requests to the store, and the states of the rules that
//! it evaluates. Frames and pieces are also in the bucket, so a call for them that fails costs time and
//! requests, never data.
//!
//! **What it is not.** It does not know engines, catalogs or queries: who answers implements [`Answers`].
//! It does not know which processes exist: the caller names an address. It repeats nothing and waits for
//! nobody: a caller that gets no answer in time reads the bucket.
//!
//! **Life of a call.** [`PeerCaller::call`] takes an idle connection to the address, or opens one: both
//! sides prove that they have the secret and agree on keys of their own ([`handshake`]). It sends the
//! request as one message in sealed frames ([`sealed`]) and reads the answer the same way. The server reads
//! one request, asks its [`Answers`], sends the answer, and reads the next request. There is one call at a
//! time on a connection.
//!
//! **Bounds.** Requests have at most [`REQUEST_BYTES_MAX`]; the caller says how large an answer may be. The
//! server has a maximum of connections, and times out a handshake, a request and an answer that does not
//! arrive. The caller keeps few connections to an address, and does not call an address again for a while
//! after a failure.
//!
//! The bytes on the wire are described in `docs/formats/peer-call.md`, the trust that they rest on in
//! `docs/security.md`.

mod caller;
mod failure;
mod handshake;
mod malformed;
mod message;
mod metrics;
mod queries;
mod rules;
mod sealed;
mod secret;
mod server;

pub use caller::PeerCaller;
pub use failure::CallError;
pub use malformed::Malformed;
pub use message::{Answer, PIECES_MAX, REQUEST_BYTES_MAX, Request};
pub use metrics::PeerMetrics;
pub use queries::{PeerQueries, PeerQuery, PeerUsage};
pub use rules::{
    GROUPS_NAMED_MAX, PeerAlert, PeerAlertState, PeerAlertTimes, PeerGroup, PeerRule, PeerRules,
    PeerRulesPart, PeerRulesParts, PeerRulesWriter,
};
pub use secret::ClusterSecret;
pub use server::{Answers, PeerServer, ServerBounds};

#[doc(hidden)]
pub mod fuzzing {
    //! What fuzz targets call.

    use bytes::Bytes;

    use crate::message::{Answer, Request};
    pub use crate::message::{decode_answer, decode_request};

    /// The bytes of a request.
    pub fn encode_request(request: &Request) -> Bytes {
        request.encode()
    }

    /// The bytes of an answer.
    pub fn encode_answer(answer: &Answer) -> Bytes {
        answer.encode().concat().into()
    }
}
