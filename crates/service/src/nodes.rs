//! The nodes that share a store, as they are shown to operators.

use std::time::Duration;

use sandur_model::{Role, Roles};

/// The nodes of a store, as one process sees them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterShown {
    /// The id of the node that answers.
    pub node: String,
    /// The number of the last catalog entry that it has read.
    pub catalog: u64,
    /// How old this state may be.
    pub catalog_age: Duration,
    /// The versions of blocks that are written, as text.
    pub writes: String,
    /// Whether the last known nodes keep their work because fewer than half of them seem to be alive.
    pub is_held: bool,
    /// Roles that no live node has.
    pub unowned: Vec<Role>,
    /// The registered processes, by node.
    pub nodes: Vec<NodeShown>,
}

/// A process and its node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeShown {
    /// The stable id of the node.
    pub id: String,
    /// The failure domain; empty if it is not configured.
    pub zone: String,
    /// The work that the node does.
    pub roles: Roles,
    /// `serving`, `stopping`, `draining`, or what is known of its death.
    pub state: &'static str,
    /// The version of its program; empty if it is not stated.
    pub version: String,
    /// The versions of blocks that the process reads, as text.
    pub reads: String,
    /// The version of catalog edits that the process reads.
    pub edits: u16,
    /// Host name.
    pub host: String,
    /// The address for peers.
    pub address: String,
    /// The id of the process.
    pub incarnation: String,
    /// When the process started by its own clock, in milliseconds since the epoch.
    pub started_ms: i64,
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// For how long no heartbeat has been seen to grow; `None` if the process has certainly ended.
    pub silent_for: Option<Duration>,
    /// The last catalog entry that the process had read at its last heartbeat; `None` if it is not known.
    pub catalog: Option<u64>,
    /// Whether the node has a share of the work.
    pub is_member: bool,
    /// Percent of the work that it owns, by role.
    pub shares: Vec<(Role, f64)>,
    /// The number of windows with blocks that it merges.
    pub windows: u64,
    /// How long ago the node that answers knew all rows that the process had acknowledged; `None` if it never
    /// did.
    pub rows_age: Option<Duration>,
    /// Why rows of the process are not read, if they are not.
    pub rows_missing: Option<String>,
}

/// The requests of a process to the store since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UsageShown {
    /// Number of requests, including retries.
    pub requests: u64,
    /// What they cost by the price table.
    pub dollars: f64,
    /// What 30 days cost at the rate of the last hour.
    pub dollars_per_month: f64,
}
