//! What the relay counts, under the names that carbon gives its own metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Keeps the larger one.
    pub fn most(&self, seen: u64) {
        self.0.fetch_max(seen, Ordering::Relaxed);
    }

    /// The number since the start, or since it was last taken.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The number, which begins anew.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// Of the whole relay.
#[derive(Debug, Default)]
pub struct Counters {
    /// Points that came in.
    pub received: Counter,
    /// Lines that are no points.
    pub rejected: Counter,
    /// Points that a stage blocked.
    pub blocked: Counter,
    /// Points that no stage allowed.
    pub not_allowed: Counter,
    /// Points whose data was not what a route wants, once for each such route.
    pub invalid_data: Counter,
    /// Points that no route took.
    pub unrouted: Counter,
    /// Points that were computed.
    pub computed: Counter,
    /// Points that came too late for their interval, or for which there was no room.
    pub not_computed: Counter,
    /// Connections that found no place, or none within the share of their address.
    pub refused_connections: Counter,
    /// Connections that were closed because there was no memory for what they sent.
    pub connections_over_memory: Counter,
    /// Connections that were closed because a line or pickle was not whole in time.
    pub slow_connections: Counter,
    /// Connections that were closed because they began with an HTTP request.
    pub http_connections: Counter,
}

impl Counters {
    /// Counters by their names, carbon's where carbon has them.
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

/// Of one target.
#[derive(Debug, Default)]
pub struct TargetCounters {
    /// Points that were meant for it.
    pub attempted: Counter,
    /// Points that were written to it.
    pub sent: Counter,
    /// Writes.
    pub batches: Counter,
    /// Points that were dropped because neither memory nor disk had room.
    pub dropped: Counter,
    /// The most bytes that waited in memory.
    pub queued: Counter,
    /// Points that went to disk.
    pub spooled: Counter,
    /// Points of the spool that were damaged or given up for newer ones.
    pub lost: Counter,
    /// Connections that failed or ended.
    pub disconnects: Counter,
}

impl TargetCounters {
    /// Counters by their names, carbon's where carbon has them.
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
