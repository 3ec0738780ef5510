//! Which nodes count as members: hysteresis over what is known of their life.
//!
//! A pure function of observations and of the times at which they were made; the caller has the clock. It
//! changes the placement rarely:
//!
//! * a node that is silent, or whose process has ended, keeps its place for 15 s, so that a restart moves
//!   nothing;
//! * a node that was out comes back after it was alive for 5 s;
//! * a node that drains leaves at once;
//! * if fewer than half of the registered nodes are alive, the observer is more likely cut off than the
//!   others dead: the last members stay.

use std::collections::BTreeMap;
use std::time::Duration;

use super::live_node::LiveNode;

/// Times of the hysteresis.
#[derive(Clone, Debug)]
pub struct NodeViewOptions {
    /// Silence after which a node leaves. Default: 15 s.
    pub leave_after: Duration,
    /// Time alive after which a node that was out joins. Default: 5 s.
    pub join_after: Duration,
}

impl Default for NodeViewOptions {
    fn default() -> Self {
        Self { leave_after: Duration::from_secs(15), join_after: Duration::from_secs(5) }
    }
}

/// What is known of a registered node at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The node.
    pub node: LiveNode,
    /// For how long it has certainly shown no sign of life.
    pub silent_for: Duration,
}

/// The members as one observer sees them.
#[derive(Debug, Default)]
pub struct NodeView {
    options: NodeViewOptions,
    tracked: BTreeMap<String, Tracked>,
    has_looked: bool,
    is_held: bool,
    members: Vec<LiveNode>,
}

#[derive(Debug)]
struct Tracked {
    node: LiveNode,
    is_member: bool,
    /// The last sign of life, by the observer's clock.
    last_alive: Duration,
    /// Since when the node is alive without a silence; `None` while it is silent.
    alive_since: Option<Duration>,
}

impl NodeView {
    /// Returns a view without members.
    pub fn new(options: NodeViewOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Takes an observation of all registered nodes at the observer's monotonic time `now`. Returns the
    /// members by id.
    pub fn observe(&mut self, now: Duration, observed: &[Observed]) -> &[LiveNode] {
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let mut registered: BTreeMap<&str, &Observed> = BTreeMap::new();
        for one in observed {
            // Of two processes with one id, as during a restart, the livelier one counts.
            let known = registered.entry(&one.node.id).or_insert(one);
            if one.silent_for < known.silent_for {
                *known = one;
            }
        }
        for one in registered.values() {
            self.track(now, one, is_first);
        }
        let leave_after = self.options.leave_after;
        let is_gone = |tracked: &Tracked| now.saturating_sub(tracked.last_alive) >= leave_after;
        for tracked in self.tracked.values_mut().filter(|tracked| is_gone(tracked)) {
            (tracked.is_member, tracked.alive_since) = (false, None);
        }
        let alive = registered.values().filter(|one| one.silent_for < leave_after).count();
        self.is_held = 2 * alive < registered.len();
        self.tracked.retain(|id, tracked| registered.contains_key(id.as_str()) || tracked.is_member);
        // Without any earlier members, the few that are alive are the best guess.
        if !self.is_held || self.members.is_empty() {
            let members = self.tracked.values().filter(|tracked| tracked.is_member);
            self.members = members.map(|tracked| tracked.node.clone()).collect();
        }
        &self.members
    }

    fn track(&mut self, now: Duration, one: &Observed, is_first: bool) {
        let alive_at = now.saturating_sub(one.silent_for);
        let known = self.tracked.entry(one.node.id.clone()).or_insert_with(|| Tracked {
            node: one.node.clone(),
            is_member: is_first,
            last_alive: alive_at,
            alive_since: None,
        });
        known.node = one.node.clone();
        known.last_alive = known.last_alive.max(alive_at);
        if one.silent_for >= self.options.leave_after {
            return;
        }
        let since = *known.alive_since.get_or_insert(now);
        known.is_member |= now.saturating_sub(since) >= self.options.join_after;
    }

    /// Returns the members by id.
    pub fn members(&self) -> &[LiveNode] {
        &self.members
    }

    /// Whether the last good members are kept because too few nodes are alive.
    pub fn is_held(&self) -> bool {
        self.is_held
    }
}
