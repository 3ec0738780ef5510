//! The options of the gossip of processes that share a bucket.

use super::option_spec::{OptionSpec, option};
use super::slot::Slot;

/// Values of `cluster.gossip`.
pub const GOSSIP_CHOICES: &[&str] = &["auto", "on", "off"];

/// The options of gossip below `[cluster]`.
pub static GOSSIP: &[OptionSpec] = &[
    option(
        "cluster.poll_interval_idle",
        "The longest interval of cluster.poll_interval while all other processes announce changes, by gossip \
         or by calls. At most half of query.max_view_age.",
        |s| Slot::Duration(&mut s.cluster.poll_interval_idle),
    ),
    option(
        "cluster.secret_file",
        "File of the secret that all processes of the cluster share: a line of at least 32 random bytes, and \
         during a rotation a second one that is also accepted (docs/security.md). It is read again every 10 \
         s. Empty: none.",
        |s| Slot::Text(&mut s.cluster.secret_file),
    ),
    option(
        "cluster.gossip",
        "Whether processes of one bucket tell each other by datagrams that they are alive and what is new: \
         auto (with cluster.secret_file), on (without a secret on loopback only) or off. Without gossip \
         everything works by reading the bucket.",
        |s| Slot::Choice(&mut s.cluster.gossip, GOSSIP_CHOICES),
    ),
    option(
        "cluster.gossip_listen",
        "UDP address of gossip. Empty: the host of listen, with port 3101, or any free port if it is taken.",
        |s| Slot::Text(&mut s.cluster.gossip_listen),
    ),
    option(
        "cluster.gossip_advertise",
        "IP address and port to which others send gossip, if they differ from those of the socket. Port 0: \
         that of the socket.",
        |s| Slot::Text(&mut s.cluster.gossip_advertise),
    ),
    option(
        "cluster.seeds",
        "UDP addresses of gossip of some other processes, HOST:PORT. Names are resolved every 30 s, such as \
         that of a headless service. Processes also find each other by their heartbeats in the bucket.",
        |s| Slot::List(&mut s.cluster.seeds),
    ),
    option(
        "cluster.name",
        "The name of the cluster: processes with other names do not understand each other's gossip. Empty: \
         the URL of the store without its parameters.",
        |s| Slot::Text(&mut s.cluster.name),
    ),
];
