//! Counters of calls to peers and of peers.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The counters. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct PeerMetrics {
    /// Calls of this process by outcome.
    pub(crate) called: Family<Call, Counter>,
    /// Calls that this process answered.
    pub(crate) answered: Family<Call, Counter>,
    /// Bytes of answers that this process received.
    pub(crate) received: Counter,
    /// Bytes of answers that this process sent.
    pub(crate) sent: Counter,
    /// Connections of peers that were refused because they do not have the secret.
    pub(crate) strangers: Counter,
    /// Open connections of peers.
    pub(crate) connections: Gauge,
}

/// A call and its outcome.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Call {
    call: &'static str,
    outcome: &'static str,
}

impl Call {
    pub(crate) fn new(call: &'static str, outcome: &'static str) -> Self {
        Self { call, outcome }
    }
}

impl PeerMetrics {
    /// Registers all metrics under the prefix `sandur_peer`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("sandur_peer");
        registry.register("calls", "Calls to other processes, by outcome", self.called.clone());
        registry.register("answered", "Calls of other processes, by what they got", self.answered.clone());
        let help = "Size of the answers of other processes";
        registry.register_with_unit("received", help, Unit::Bytes, self.received.clone());
        let help = "Size of the answers to other processes";
        registry.register_with_unit("sent", help, Unit::Bytes, self.sent.clone());
        let help = "Connections that were refused because they do not have the cluster's secret";
        registry.register("strangers", help, self.strangers.clone());
        registry.register("connections", "Open connections of other processes", self.connections.clone());
    }
}
