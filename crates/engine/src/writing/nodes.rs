//! Keeps this process's knowledge of the other nodes current, and states changes of the own node.

use std::time::Duration;

use sandur_catalog::NodePhase;
use sandur_catalog::Writer as Registered;
use sandur_format::catalog_entry::WalKind;
use sandur_model::Role;

use crate::error::{Error, refused};
use crate::writing::writer::Writer;

impl Writer {
    /// Observes which nodes live, from the newest snapshot and the heartbeats. Makes no request.
    pub(crate) fn observe_nodes(&self) {
        let (node, snapshot) = (&self.node, self.node.catalog.snapshot());
        let (now, before) = (node.env.monotonic(), node.place.phase());
        let is_cut_off = self.membership.members().is_some_and(|members| members.is_cut_off());
        // While the store refuses our heartbeats, the silence of others says nothing about them.
        let silence_of = |writer: &Registered| {
            self.silence_of(writer).map(|silence| if is_cut_off { Duration::ZERO } else { silence })
        };
        let change = node.place.observe(now, &snapshot, self.incarnation(), silence_of);
        if before != NodePhase::Draining && node.place.phase() == NodePhase::Draining {
            tracing::info!("this node drains: its rows are flushed, and others take over its work");
            self.flush_signal.press();
        }
        if !change.joined.is_empty() || !change.left.is_empty() {
            let (joined, left) = (change.joined.join(" "), change.left.join(" "));
            tracing::info!(joined, left, "the nodes that share the work have changed");
        }
        for role in change.unowned {
            tracing::warn!(%role, "no live node has this role: its work waits; see cluster.roles");
        }
        if change.is_held {
            let known = node.place.placement().0.nodes().len();
            tracing::warn!(
                known,
                "fewer than half of the nodes are alive: the last known nodes keep their work"
            );
        }
        self.measure_nodes();
    }

    /// States that this process stops, unless the node drains.
    pub(crate) async fn leave_place(&self) -> Result<(), Error> {
        match self.node.place.phase() {
            // In a directory nobody else would read it.
            NodePhase::Serving if !self.local => self.enter_phase(NodePhase::Stopping).await,
            _ => Ok(()),
        }
    }

    /// For how long another process has certainly been silent; `None` if it has ended.
    pub(crate) fn silence_of(&self, writer: &Registered) -> Option<Duration> {
        // The lock of a directory, and a WAL of files in a bucket, mean that the process has ended.
        if self.local || writer.wal == WalKind::Local {
            return None;
        }
        let members = self.membership.members();
        let silence = members.and_then(|members| members.silent_for(writer.incarnation));
        // A heartbeat that was not read yet is no silence.
        Some(silence.unwrap_or(Duration::ZERO))
    }

    fn measure_nodes(&self) {
        let (placement, is_held) = self.node.place.placement();
        let metrics = &self.node.metrics;
        for role in Role::ALL {
            let nodes = placement.ring(role).len() as i64;
            metrics.role_nodes.get_or_create(&[("role", role.name())]).set(nodes);
        }
        metrics.nodes_held.set(i64::from(is_held));
    }

    /// States in the catalog that this node begins to leave, or stays. Without an effect while a program is
    /// registered that does not read it.
    pub(crate) async fn enter_phase(&self, phase: NodePhase) -> Result<(), Error> {
        if self.node.place.phase() == phase {
            return Ok(());
        }
        if !self.is_registered() {
            self.node.place.set_phase(phase);
            return Ok(());
        }
        let own = self.incarnation();
        let set = self.node.catalog.set_phase(own, own, phase).await;
        set.map_err(|error| refused("the phase of this node", &error))?;
        self.node.place.set_phase(phase);
        self.observe_nodes();
        Ok(())
    }
}
