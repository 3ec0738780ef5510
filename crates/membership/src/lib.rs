//! Membership: which processes of a cluster are alive, where they are, and what they announce.
//!
//! **What it is.** Nodes exchange small sealed datagrams every second. Each node knows of each other node
//! its [`NodeState`], whether it is alive since when ([`Liveness`]), and the newest numbers of the catalog
//! and the WAL that it announced. [`Membership`] runs a node, [`View`] is what it knows.
//!
//! **What it is not.** Nothing here decides about data. Which writers exist says the catalog; a writer is
//! fenced through the bucket. A view may be old, different on each node, or wrong: it is a hint where to
//! ask and when to look. It carries nothing per tenant, stream or block.
//!
//! **Life of a datagram.** [`Membership`] seals a [`Message`] of [`Gossip`] with the key of its sender
//! ([`KeyRing`]) and sends it by a [`DatagramSocket`]. The receiver checks length, version, time, rate,
//! authenticity and repetition in this order, and only then parses the message. Its protocol state
//! machine returns an answer, which goes to the sender.
//!
//! **Threat model.** Without the secret one can neither read nor invent a datagram, nor make a node send
//! or allocate anything; a recorded datagram counts once, within 30 s. One can drop and delay datagrams,
//! and flood the socket, which makes nodes look dead. With the secret one can lie about every node. The
//! cost of a lie is bounded: more polls of the bucket, at most ten a second; adoption of a writer whose
//! heartbeat in the bucket has stopped too; addresses to which sealed datagrams are sent.
//!
//! **Invariants.** A datagram is at most [`DATAGRAM_BYTES_MAX`] bytes, a state at most
//! [`STATE_BYTES_MAX`], and at most [`NODES_MAX`] peers are known. The protocol reads no clock, draws no
//! random number and opens no socket by itself, so a run of many nodes repeats from a seed.

mod arrivals;
mod bytes;
mod datagram;
mod error;
mod gossip;
mod inbox;
mod key_ring;
mod membership;
mod message;
mod metrics;
mod network;
mod replay;
mod seeds;
mod state;
mod view;

#[cfg(test)]
mod tests;

pub use arrivals::{SILENCE_MAX, SILENCE_MIN};
pub use datagram::{DATAGRAM_BYTES_MAX, Header, Opened, PAYLOAD_BYTES_MAX, Refused, Sealed};
pub use error::Error;
pub use gossip::{Counts, Gossip, NODES_MAX, Outgoing, Random, TICK};
pub use inbox::open_once;
pub use key_ring::KeyRing;
pub use membership::{Membership, Options, PUSH_GAP};
pub use message::{Beat, Message};
pub use metrics::Metrics;
pub use network::{DatagramSocket, Network, Udp};
pub use replay::WINDOW;
pub use seeds::{BucketSeeds, RESOLVED_EVERY};
pub use state::{NodeState, STATE_BYTES_MAX};
pub use view::{Liveness, Peer, View};
