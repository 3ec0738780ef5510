//! This process's node: what it states about itself, and which work of the cluster it owns.
//!
//! [`NodePlace::observe`] is told from time to time which processes are registered and how long they have
//! been silent. Between two calls the answers do not change. The assignment of work only avoids that two
//! nodes do the same; correctness does not depend on it, because every commit has preconditions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::Writer as Registered;
use sandur_catalog::placement::{LiveNode, NodeView, Observed, PlaceKey, Placement};
use sandur_catalog::{NodeDescription, NodePhase, Snapshot};
use sandur_model::{Dataset, Role, Roles, TimeRange};

use crate::options::NodeOptions;

/// Work on stored blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Merges and rollups. May wait.
    Merge,
    /// Retention and deletes. Must not stop because nobody merges.
    Removal,
}

/// The node of this process.
pub(crate) struct NodePlace {
    options: NodeOptions,
    /// The roles that others see: the configured ones, without those that the options leave no work for.
    roles: Roles,
    own: Mutex<Own>,
    view: Mutex<NodeView>,
    current: RwLock<Current>,
}

/// What changes of the own description.
#[derive(Debug, Default)]
struct Own {
    /// The configured id, or the text of the first incarnation.
    id: String,
    phase: NodePhase,
    /// The incarnation under which this process registered last.
    last: Option<Id>,
}

/// The members of the last observation.
#[derive(Clone, Default)]
struct Current {
    placement: Arc<Placement>,
    /// The id under which the others know this node.
    own_id: String,
    is_held: bool,
}

/// What an observation has changed, for the log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Roles that no node has any more.
    pub(crate) unowned: Vec<Role>,
    /// Whether the last good members are kept since now.
    pub(crate) is_held: bool,
    /// Ids of nodes that joined or left.
    pub(crate) joined: Vec<String>,
    pub(crate) left: Vec<String>,
}

impl NodePlace {
    /// Returns the node of the options. `merges` says whether the options leave it any merges to do.
    pub(crate) fn new(options: &NodeOptions, merges: bool) -> Self {
        let roles = if merges { options.roles } else { options.roles.without(Role::Compact) };
        let own = Mutex::new(Own { id: options.id.clone(), ..Own::default() });
        let (view, current) = (Mutex::default(), RwLock::default());
        Self { options: options.clone(), roles, own, view, current }
    }

    /// Returns the description with which this process registers as `incarnation`. If another process has
    /// registered with our id after us, the id is not ours alone: we take another one.
    pub(crate) fn register_as(&self, snapshot: &Snapshot, incarnation: Id) -> NodeDescription {
        let mut own = self.lock_own();
        if own.id.is_empty() {
            own.id = incarnation.to_string();
        }
        let is_ours = |writer: &Registered| writer.node.as_ref().is_some_and(|node| node.id == own.id);
        let usurper = own.last.and_then(|last| {
            let later = snapshot.writers().range(last..).skip_while(|(id, _)| **id == last);
            later.map(|(_, writer)| writer).find(|writer| is_ours(writer) && !writer.is_sealed())
        });
        if let Some(usurper) = usurper {
            tracing::error!(
                node = own.id,
                other = usurper.host,
                "another process uses the same node id: give each process its own cluster.node_id and its \
                 own cache directory"
            );
            own.id = format!("{}+{incarnation}", self.options.id);
        }
        self.describe(&own)
    }

    /// Notes that this process is registered as `incarnation`.
    pub(crate) fn note_registered(&self, incarnation: Id) {
        self.lock_own().last = Some(incarnation);
    }

    /// Returns the present description.
    pub(crate) fn description(&self) -> NodeDescription {
        self.describe(&self.lock_own())
    }

    fn describe(&self, own: &Own) -> NodeDescription {
        NodeDescription {
            id: own.id.clone(),
            zone: self.options.zone.clone(),
            roles: self.roles,
            cache_bytes: self.options.cache_bytes,
            phase: own.phase,
            version: self.options.version.clone(),
        }
    }

    /// The phase of this node, as it or another process has set it.
    pub(crate) fn phase(&self) -> NodePhase {
        self.lock_own().phase
    }

    /// Notes a phase that is about to be committed.
    pub(crate) fn set_phase(&self, phase: NodePhase) {
        self.lock_own().phase = phase;
    }

    /// Takes what is known now: the registered writers of `snapshot`, and for how long each has been silent.
    /// Writers for which that is `None` are dead. Returns what has changed.
    pub(crate) fn observe(
        &self,
        now: Duration,
        snapshot: &Snapshot,
        own: Id,
        silent_for: impl Fn(&Registered) -> Option<Duration>,
    ) -> Change {
        let unsealed = snapshot.writers().values().filter(|writer| !writer.is_sealed());
        let observed = |writer: &Registered| {
            let silent_for = if writer.incarnation == own { Duration::ZERO } else { silent_for(writer)? };
            Some(Observed { node: node_of(writer), silent_for })
        };
        let observed: Vec<Observed> = unsealed.filter_map(observed).collect();
        if let Some(node) = snapshot.writer(own).and_then(|writer| writer.node.as_ref()) {
            self.lock_own().phase = node.phase;
        }
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        let members = view.observe(now, &observed);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let own_id = snapshot.writer(own).map_or_else(|| own.to_string(), |writer| node_of(writer).id);
        let mut change = Change::default();
        if current.placement.nodes() != members {
            let ids = |nodes: &[LiveNode]| nodes.iter().map(|n| n.id.clone()).collect::<BTreeSet<String>>();
            let (before, after) = (ids(current.placement.nodes()), ids(members));
            change.joined = after.difference(&before).cloned().collect();
            change.left = before.difference(&after).cloned().collect();
            let placement = Placement::new(members.to_vec());
            let is_new = |role: &Role| {
                placement.ring(*role).is_empty()
                    && (before.is_empty() || !current.placement.ring(*role).is_empty())
            };
            change.unowned = Role::NEEDED.into_iter().filter(is_new).collect();
            current.placement = Arc::new(placement);
        }
        change.is_held = view.is_held() && !current.is_held;
        (current.own_id, current.is_held) = (own_id, view.is_held());
        change
    }

    /// Whether this node does a piece of work on a window of a dataset.
    pub(crate) fn owns(&self, duty: Duty, dataset: &Dataset, window: TimeRange) -> bool {
        if !self.options.roles.has(Role::Compact) || self.phase() == NodePhase::Draining {
            return false;
        }
        let current = self.current();
        match current.placement.owner(Role::Compact, PlaceKey::of_window(dataset, window)) {
            Some(owner) => owner.id == current.own_id,
            None => duty == Duty::Removal,
        }
    }

    /// This node's place in the order in which nodes adopt a writer: 0 for the owner of the work, 1 for the
    /// second choice, 2 for all others.
    pub(crate) fn adoption_rank(&self, dead: Id) -> u32 {
        let (current, key) = (self.current(), PlaceKey::of_writer(dead));
        let is_own = |node: Option<&LiveNode>| node.is_some_and(|node| node.id == current.own_id);
        let placement = &current.placement;
        if is_own(placement.owner(Role::Ingest, key)) {
            0
        } else if is_own(placement.second(Role::Ingest, key)) {
            1
        } else {
            2
        }
    }

    /// Whether a later process of this node has taken the place of a writer: the writer is dead.
    pub(crate) fn succeeds(&self, snapshot: &Snapshot, own: Id, writer: &Registered) -> bool {
        let id_of = |writer: &Registered| writer.node.as_ref().map(|node| node.id.clone());
        let id = id_of(writer);
        writer.incarnation < own && id.is_some() && snapshot.writer(own).and_then(id_of) == id
    }

    /// The members, and whether they are kept from an earlier observation.
    pub(crate) fn placement(&self) -> (Arc<Placement>, bool) {
        let current = self.current();
        (current.placement, current.is_held)
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock_own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The node of a writer. One that is not described is a node of its own with all roles: its program is from
/// before descriptions, or such a program is registered.
pub(crate) fn node_of(writer: &Registered) -> LiveNode {
    match &writer.node {
        Some(node) if !node.id.is_empty() => LiveNode {
            id: node.id.clone(),
            zone: node.zone.clone(),
            roles: node.roles,
            cache_bytes: node.cache_bytes,
            draining: node.phase == NodePhase::Draining,
        },
        _ => LiveNode {
            id: writer.incarnation.to_string(),
            zone: String::new(),
            roles: Roles::ALL,
            cache_bytes: 0,
            draining: false,
        },
    }
}
