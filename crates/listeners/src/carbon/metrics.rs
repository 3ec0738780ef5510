//! Counters of Carbon's listeners.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Labels of counters by protocol.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ProtocolLabels {
    /// `plaintext`, `pickle` or `protobuf`.
    pub protocol: &'static str,
}

/// Labels of rejected points and of closed connections.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReasonLabels {
    /// Why.
    pub reason: &'static str,
}

/// Handles of the counters. Cheap to clone; all clones count together.
#[derive(Clone, Default)]
pub struct CarbonMetrics {
    accepted: Family<ProtocolLabels, Counter>,
    durable: Family<ProtocolLabels, Counter>,
    rejected: Family<ReasonLabels, Counter>,
    ended: Family<ReasonLabels, Counter>,
    /// Open connections.
    pub connections: Gauge,
    /// Blocks that were stored again after a failure.
    pub repeats: Counter,
}

impl CarbonMetrics {
    /// Registers the counters.
    pub fn register(&self, all: &mut Registry) {
        let text = "Points that were received and exceeded no limit";
        all.register("sandur_carbon_accepted_points", text, self.accepted.clone());
        all.register("sandur_carbon_durable_points", "Points that are durable", self.durable.clone());
        let text = "Points and messages that were rejected";
        all.register("sandur_carbon_rejected_points", text, self.rejected.clone());
        // From the start: a rate does not see that a series begins at 1.
        let of_lines = sandur_carbon::Reason::EVERY.map(sandur_carbon::Reason::name);
        let of_limits = sandur_ingest::Reason::EVERY.map(sandur_ingest::Reason::name);
        of_lines
            .into_iter()
            .chain(of_limits)
            .chain(["not_stored", "too_many_series"])
            .for_each(|reason| self.rejected(reason, 0));
        let text = "Connections that the server closed, by reason";
        all.register("sandur_carbon_ended_connections", text, self.ended.clone());
        all.register("sandur_carbon_connections", "Open connections", self.connections.clone());
        let text = "Blocks that were stored again after a failure";
        all.register("sandur_carbon_repeats", text, self.repeats.clone());
    }

    /// Counts received points.
    pub fn accepted(&self, protocol: &'static str, points: u64) {
        self.accepted.get_or_create(&ProtocolLabels { protocol }).inc_by(points);
    }

    /// Counts points that are durable.
    pub fn durable(&self, protocol: &'static str, points: u64) {
        self.durable.get_or_create(&ProtocolLabels { protocol }).inc_by(points);
    }

    /// Counts rejected points.
    pub fn rejected(&self, reason: &'static str, points: u64) {
        self.rejected.get_or_create(&ReasonLabels { reason }).inc_by(points);
    }

    /// Counts a connection that the server closed.
    pub fn ended(&self, reason: &'static str) {
        self.ended.get_or_create(&ReasonLabels { reason }).inc();
    }
}
