//! What this process knows of the nodes that share its store, for operators.

use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::placement::{Placement, SLOTS};
use sandur_catalog::{BlockForms, NodePhase, Writer as Registered};
use sandur_model::{Role, Roles};

use crate::followed::WriterShown;
use crate::place::node_of;
use crate::window_counts::WindowsByNode;
use crate::writing::writer::Writer;

/// The nodes of a store, as one process sees them.
#[derive(Clone, Debug)]
pub struct ClusterReport {
    /// The id of the node that made the report.
    pub own: String,
    /// The number of the last catalog entry that the process has read.
    pub catalog: u64,
    /// How old this state may be.
    pub catalog_age: Duration,
    /// The versions of blocks that are written.
    pub forms: BlockForms,
    /// Whether the last known nodes keep their work because fewer than half of them seem to be alive.
    pub is_held: bool,
    /// Roles that no live node has.
    pub unowned: Vec<Role>,
    /// One per process that is registered and not sealed, by node and process.
    pub nodes: Vec<NodeReport>,
}

/// A process and its node.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// The stable id of the node.
    pub id: String,
    /// The failure domain; empty if it is not configured.
    pub zone: String,
    /// The work that the node does.
    pub roles: Roles,
    /// Whether the node stays.
    pub phase: NodePhase,
    /// The version of its program; empty if it is not stated.
    pub version: String,
    /// The versions of blocks that the process reads.
    pub reads: BlockForms,
    /// The version of catalog edits that the process reads.
    pub edits: u16,
    /// Host name.
    pub host: String,
    /// The address for peers.
    pub address: String,
    /// The id of the process.
    pub incarnation: Id,
    /// When the process started by its own clock, in milliseconds since the epoch.
    pub started_ms: i64,
    /// Bytes of the cache.
    pub cache_bytes: u64,
    /// For how long no heartbeat has been seen to grow; `None` if the process has certainly ended.
    pub silent_for: Option<Duration>,
    /// The last catalog entry that the process had read at its last heartbeat; `None` if it is not known.
    pub seen: Option<u64>,
    /// Whether the node has a share of the work.
    pub is_member: bool,
    /// Percent of the work that it owns, by role.
    pub shares: Vec<(Role, f64)>,
    /// The number of windows with blocks that it merges.
    pub windows: u64,
    /// How long ago this process knew all rows that the process had acknowledged; `None` if it never did.
    pub rows_age: Option<Duration>,
    /// Why rows of the process are not read, if they are not.
    pub rows_missing: Option<String>,
}

/// The requests of a process to the store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StoreUsage {
    /// Number of requests, including retries.
    pub requests: u64,
    /// What they cost by the price table.
    pub dollars: f64,
    /// What 30 days cost at the rate of the last hour.
    pub dollars_per_month: f64,
}

/// Another process that uses the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherProcess {
    /// The stable id of its node.
    pub node: String,
    /// The id of the process.
    pub incarnation: Id,
    /// The address for peers; empty if it states none.
    pub address: String,
}

impl Writer {
    /// The other processes that may be running.
    pub(crate) fn other_processes(&self) -> Vec<OtherProcess> {
        let snapshot = self.node.catalog.snapshot();
        let (own, own_node) = (self.incarnation(), self.node_id());
        let may_run = |writer: &&Registered| {
            // An earlier process of this node had the same address. Those of other nodes may state the same.
            let is_earlier = || writer.address == self.options.address && node_of(writer).id == own_node;
            let is_own = writer.incarnation == own || is_earlier();
            !writer.is_sealed() && !is_own && self.silence_of(writer).is_some()
        };
        let other = |writer: &Registered| OtherProcess {
            node: node_of(writer).id,
            incarnation: writer.incarnation,
            address: writer.address.clone(),
        };
        snapshot.writers().values().filter(may_run).map(other).collect()
    }

    /// The id of this node, as others know it.
    pub(crate) fn node_id(&self) -> String {
        let snapshot = self.node.catalog.snapshot();
        let own = snapshot.writer(self.incarnation());
        own.map_or_else(|| self.node.place.description().id, |writer| node_of(writer).id)
    }

    /// Describes all nodes that are registered.
    pub(crate) async fn report_nodes(&self) -> ClusterReport {
        self.observe_nodes();
        let (catalog, place) = (&self.node.catalog, &self.node.place);
        let snapshot = catalog.snapshot();
        let (placement, is_held) = place.placement();
        let windows = self.window_counts.of(&self.node.env, &snapshot, &placement).await;
        let unsealed = snapshot.writers().values().filter(|writer| !writer.is_sealed());
        let followed = self.node.followed.shown();
        let mut nodes: Vec<NodeReport> =
            unsealed.map(|writer| self.report(writer, (&placement, &windows), &followed)).collect();
        nodes.sort_by(|a, b| (&a.id, a.incarnation).cmp(&(&b.id, b.incarnation)));
        ClusterReport {
            own: self.node_id(),
            catalog: snapshot.number(),
            catalog_age: catalog.age(),
            forms: snapshot.forms(),
            is_held,
            unowned: Role::NEEDED.into_iter().filter(|role| placement.ring(*role).is_empty()).collect(),
            nodes,
        }
    }

    fn report(
        &self,
        writer: &Registered,
        (placement, windows): (&Placement, &WindowsByNode),
        followed: &[WriterShown],
    ) -> NodeReport {
        let (live, members) = (node_of(writer), self.membership.members());
        let is_own = writer.incarnation == self.incarnation();
        let silent_for = match is_own {
            true => Some(Duration::ZERO),
            false => self.silence_of(writer),
        };
        let seen = match is_own {
            true => Some(self.node.catalog.snapshot().number()),
            false => members.and_then(|members| members.seen_by(writer.incarnation)),
        };
        let rows = followed.iter().find(|shown| shown.writer == writer.incarnation);
        // Only writers of a bucket are followed: a directory has no other processes.
        let rows_age = match is_own || self.local {
            true => Some(Duration::ZERO),
            false => rows.and_then(|shown| shown.age),
        };
        let share = |role: &Role| {
            let slots = placement.ring(*role).slots_of(&live.id);
            (slots > 0).then(|| (*role, slots as f64 / SLOTS as f64 * 100.0))
        };
        NodeReport {
            is_member: placement.nodes().iter().any(|node| node.id == live.id),
            shares: Role::ALL.iter().filter_map(share).collect(),
            windows: windows.get(&live.id).copied().unwrap_or(0),
            phase: writer.node.as_ref().map(|node| node.phase).unwrap_or_default(),
            version: writer.node.as_ref().map(|node| node.version.clone()).unwrap_or_default(),
            id: live.id,
            zone: live.zone,
            roles: live.roles,
            cache_bytes: live.cache_bytes,
            reads: writer.reads.unwrap_or(BlockForms::UNSTATED),
            edits: writer.edits,
            host: writer.host.clone(),
            address: writer.address.clone(),
            incarnation: writer.incarnation,
            started_ms: writer.started_ms,
            silent_for,
            seen,
            rows_age,
            rows_missing: rows.and_then(|shown| shown.reason.clone()),
        }
    }
}
