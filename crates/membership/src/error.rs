//! Errors of a node that cannot take part in gossip.

use std::net::SocketAddr;

use sandur_base::BadSecret;

/// Why gossip does not start, or why a state cannot be gossiped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file of the secret cannot be used.
    #[error("cluster.secret_file: {path}: {reason}")]
    Secret {
        /// The file.
        path: String,
        /// What is wrong, and the remedy.
        reason: BadSecret,
    },
    /// Other machines could reach the address, and there is no secret.
    #[error(
        "gossip without a secret is limited to loopback, and {address} is not a loopback address: set \
         cluster.secret_file, or cluster.gossip_listen to an address like 127.0.0.1:3101"
    )]
    NotLoopback {
        /// The address of the socket.
        address: SocketAddr,
    },
    /// The socket cannot be opened.
    #[error("gossip cannot listen on {address} (UDP): {reason}; set cluster.gossip_listen to a free address")]
    Bind {
        /// The address of the socket.
        address: SocketAddr,
        /// The error of the system.
        reason: std::io::Error,
    },
    /// Peers cannot know under which address to reach this process.
    #[error("{value} is not an address that peers can reach: set cluster.gossip_advertise to HOST_IP:PORT")]
    Advertise {
        /// The address.
        value: String,
    },
    /// A field of the node's state does not follow its rules.
    #[error("{field} of this node, '{value}', cannot be gossiped: {rule}")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// Its value, at most the length that the rule allows.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// The encoded state is too large.
    #[error("the state of this node has {bytes} bytes, and at most {max} are gossiped: shorten its names")]
    StateTooLarge {
        /// Bytes of the state.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}
