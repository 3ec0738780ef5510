//! The relay's counters, under the names of carbon's own metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter, or a maximum.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Raises the maximum.
    pub fn most(&self, seen: u64) {
        self.0.fetch_max(seen, Ordering::Relaxed);
    }

    /// Returns the value since the start, or since the last [`Counter::take`].
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the value and resets it to 0.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// The counters of the whole relay.
#[derive(Debug, Default)]
pub struct Counters {
    /// Points received.
    pub received: Counter,
    /// Lines that are not points.
    pub rejected: Counter,
    /// Points that a stage blocked.
    pub blocked: Counter,
    /// Points that no stage allowed.
    pub not_allowed: Counter,
    /// Points whose data a route's validation refused, once per route.
    pub invalid_data: Counter,
    /// Points that no route matched.
    pub unrouted: Counter,
    /// Points that aggregation rules computed.
    pub computed: Counter,
    /// Points that arrived too late for their interval, or for which a limit left no room.
    pub not_computed: Counter,
    /// Connections refused by the limit of all connections or of one address.
    pub refused_connections: Counter,
    /// Connections closed because there was no memory for what they sent.
    pub connections_over_memory: Counter,
    /// Connections closed because a line or pickle was not complete in time.
    pub slow_connections: Counter,
    /// Connections closed because they began with an HTTP request.
    pub http_connections: Counter,
}

impl Counters {
    /// Returns the counters with their names, which are carbon's where carbon has them.
    pub fn named(&self) -> [(&'static str, &Counter); 12] {
        [
            ("metricsReceived", &self.received),
            ("invalidMetrics", &self.rejected),
            ("blacklistMatches", &self.blocked),
            ("whitelistRejects", &self.not_allowed),
            ("invalidData", &self.invalid_data),
            ("unroutedMetrics", &self.unrouted),
            ("aggregateDatapointsSent", &self.computed),
            ("aggregateDatapointsDropped", &self.not_computed),
            ("refusedConnections", &self.refused_connections),
            ("connectionsOverMemory", &self.connections_over_memory),
            ("slowConnections", &self.slow_connections),
            ("httpConnections", &self.http_connections),
        ]
    }
}

/// The counters of one target.
#[derive(Debug, Default)]
pub struct TargetCounters {
    /// Points routed to it.
    pub attempted: Counter,
    /// Points written to it.
    pub sent: Counter,
    /// Number of writes.
    pub batches: Counter,
    /// Points dropped because neither memory nor disk had room.
    pub dropped: Counter,
    /// The largest number of bytes queued in memory.
    pub queued: Counter,
    /// Points written to disk.
    pub spooled: Counter,
    /// Points of the spool that were damaged, or dropped to make room for newer ones.
    pub lost: Counter,
    /// Connections that failed or ended.
    pub disconnects: Counter,
}

impl TargetCounters {
    /// Returns the counters with their names, which are carbon's where carbon has them.
    pub fn named(&self) -> [(&'static str, &Counter); 8] {
        [
            ("attemptedRelays", &self.attempted),
            ("sent", &self.sent),
            ("batchesSent", &self.batches),
            ("fullQueueDrops", &self.dropped),
            ("relayMaxQueueLength", &self.queued),
            ("spooled", &self.spooled),
            ("spoolLost", &self.lost),
            ("disconnects", &self.disconnects),
        ]
    }
}
