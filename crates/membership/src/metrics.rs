//! Counters and gauges of gossip.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::datagram::Refused;
use crate::gossip::Counts;
use crate::view::{Liveness, View};

type Label = [(&'static str, &'static str); 1];

/// The metrics of one node. Clones share the same counters.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    sent: Counter,
    sent_bytes: Counter,
    unsent: Counter,
    received: Counter,
    received_bytes: Counter,
    refused: Family<Label, Counter>,
    odd: Family<Label, Counter>,
    peers: Family<Label, Gauge>,
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let mut add =
            |name: &str, help: &str, counter: &Counter| registry.register(name, help, counter.clone());
        add("sandur_gossip_sent_datagrams", "Datagrams that were sent", &self.sent);
        add("sandur_gossip_sent_bytes", "Bytes of datagrams that were sent", &self.sent_bytes);
        add("sandur_gossip_unsent_datagrams", "Datagrams that the system refused to send", &self.unsent);
        add("sandur_gossip_received_datagrams", "Datagrams that arrived", &self.received);
        add("sandur_gossip_received_bytes", "Bytes of datagrams that arrived", &self.received_bytes);
        let help = "Datagrams that were not used, by reason";
        registry.register("sandur_gossip_refused_datagrams", help, self.refused.clone());
        let help = "Content of authentic datagrams that no honest peer sends, by kind";
        registry.register("sandur_gossip_odd_content", help, self.odd.clone());
        registry.register("sandur_gossip_peers", "Known peers, by state", self.peers.clone());
    }

    /// Datagrams that were refused for this reason.
    pub fn refused(&self, reason: Refused) -> u64 {
        self.refused.get_or_create(&[("reason", reason.as_str())]).get()
    }

    /// Datagrams and bytes that were sent.
    pub fn sent(&self) -> (u64, u64) {
        (self.sent.get(), self.sent_bytes.get())
    }

    pub(crate) fn note_sent(&self, bytes: usize, is_sent: bool) {
        if is_sent {
            self.sent.inc();
            self.sent_bytes.inc_by(bytes as u64);
        } else {
            self.unsent.inc();
        }
    }

    pub(crate) fn note_received(&self, bytes: usize) {
        self.received.inc();
        self.received_bytes.inc_by(bytes as u64);
    }

    pub(crate) fn note_refused(&self, reason: Refused) {
        self.refused.get_or_create(&[("reason", reason.as_str())]).inc();
    }

    pub(crate) fn note_counts(&self, before: Counts, now: Counts) {
        let kinds = [
            ("too_many_nodes", now.overflowing - before.overflowing),
            ("bad_state", now.bad_states - before.bad_states),
            ("beat_of_this_node", now.refuted - before.refuted),
        ];
        for (kind, more) in kinds.into_iter().filter(|(_, more)| *more > 0) {
            self.odd.get_or_create(&[("kind", kind)]).inc_by(more);
        }
    }

    pub(crate) fn note_view(&self, view: &View) {
        let is = |kind: &str, liveness: Liveness| match liveness {
            Liveness::Alive { .. } => kind == "alive",
            Liveness::Dead { .. } => kind == "dead",
            Liveness::Left { .. } => kind == "left",
        };
        for kind in ["alive", "dead", "left"] {
            let number = view.peers.iter().filter(|peer| is(kind, peer.liveness)).count();
            self.peers.get_or_create(&[("state", kind)]).set(number as i64);
        }
    }
}
