//! Metrics of HTTP, and the page with all metrics of the process.

use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use sandur_listeners::ConnectionCounts;
use sandur_memory::MemoryBudget;
use sandur_terminal::logging;

use crate::process_metrics::ProcessMetrics;

/// Labels of request counters. Routes are patterns, so that their number is limited.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RequestLabels {
    /// Pattern of the path.
    pub route: String,
    /// Method.
    pub method: String,
    /// Scope of the route: selects pushes of all protocols.
    pub scope: &'static str,
    /// Status of the answer.
    pub status: u16,
}

/// Labels of durations.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RouteLabels {
    /// Pattern of the path.
    pub route: String,
}

/// Labels of memory budgets.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct BudgetLabels {
    /// Name of the budget.
    pub budget: String,
}

/// Labels of requests that were turned away.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReasonLabels {
    /// Why.
    pub reason: &'static str,
}

/// Handles of the server's own metrics. Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct ServerMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    turned_away: Family<ReasonLabels, Counter>,
    /// Open connections.
    pub connections: Gauge,
    /// Connections that were closed for others or refused.
    pub admission: ConnectionCounts,
    /// Resident memory as last read by the governor.
    pub resident_bytes: Gauge,
    budget_used: Family<BudgetLabels, Gauge>,
    budget_limit: Family<BudgetLabels, Gauge>,
    /// Stored lines of the server's own log.
    pub self_logs: Counter,
    /// Lines of the server's own log that exceeded the queue or a limit.
    pub self_logs_dropped: Counter,
    log_dropped: Counter,
    /// Delay of due tasks on the I/O threads.
    pub io_delay_seconds: Histogram,
}

fn histogram() -> Histogram {
    // 1 ms to 16 s in powers of two, and 60 s: fits acknowledgements and queries.
    let buckets = (0..15).map(|n| f64::from(1u32 << n) / 1_000.0).chain([60.0]);
    Histogram::new(buckets)
}

impl Default for ServerMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(histogram as fn() -> Histogram),
            turned_away: Family::default(),
            connections: Gauge::default(),
            admission: ConnectionCounts::default(),
            resident_bytes: Gauge::default(),
            budget_used: Family::default(),
            budget_limit: Family::default(),
            self_logs: Counter::default(),
            self_logs_dropped: Counter::default(),
            log_dropped: Counter::default(),
            io_delay_seconds: histogram(),
        }
    }
}

impl ServerMetrics {
    /// Registers the server's metrics.
    pub fn register(self, mut registry: Registry) -> Registry {
        let all = &mut registry;
        let text = "Answered requests; 499: the client closed the connection before";
        all.register("sandur_http_requests", text, self.requests);
        all.register("sandur_http_request_seconds", "Time to answer requests", self.seconds);
        let text = "Requests that were refused before they were processed";
        all.register("sandur_http_refused_requests", text, self.turned_away);
        all.register("sandur_http_connections", "Open connections", self.connections);
        let text = "Idle connections closed to accept others";
        all.register("sandur_http_evicted_connections", text, self.admission.evicted);
        let text = "Connections refused because their address reached its share and all were busy";
        all.register("sandur_http_refused_connections", text, self.admission.refused);
        all.register("sandur_memory_budget_used_bytes", "Reserved bytes of a budget", self.budget_used);
        all.register("sandur_memory_budget_limit_bytes", "Bytes of a budget", self.budget_limit);
        let text = "Resident memory as last read by the governor";
        all.register("sandur_memory_resident_bytes", text, self.resident_bytes);
        all.register_collector(Box::new(ProcessMetrics));
        all.register("sandur_self_log_lines", "Stored lines of the server's own log", self.self_logs);
        let text = "Lines of the server's own log that exceeded the 4 MiB queue or a limit";
        all.register("sandur_self_log_dropped_lines", text, self.self_logs_dropped);
        let text = "Lines of the log that were dropped because standard error was not read in time";
        all.register("sandur_log_dropped_lines", text, self.log_dropped);
        let text = "Delay of due tasks on the I/O threads: long while they compute";
        all.register("sandur_io_delay_seconds", text, self.io_delay_seconds);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        all.register("sandur_build", "Version of the server", build);
        registry
    }

    /// Updates the number of dropped lines of the log.
    pub fn observe_log(&self) {
        // The log counts; this copies its count.
        self.log_dropped.inner().store(logging::stderr::dropped(), Ordering::Relaxed);
    }

    /// Updates the metrics of a budget.
    pub fn observe_budget(&self, budget: &MemoryBudget) {
        let labels = BudgetLabels { budget: budget.name().to_owned() };
        self.budget_used.get_or_create(&labels).set(budget.used() as i64);
        self.budget_limit.get_or_create(&labels).set(budget.limit() as i64);
    }

    /// Counts a request that the gate refused.
    pub fn refused_request(&self, reason: &'static str) {
        self.turned_away.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts an answered request.
    pub fn answered(&self, labels: RequestLabels, took: Duration) {
        let route = RouteLabels { route: labels.route.clone() };
        self.seconds.get_or_create(&route).observe(took.as_secs_f64());
        self.requests.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Exposition;

    #[test]
    fn requests_are_counted_by_route_method_and_status() {
        let metrics = ServerMetrics::default();
        let (route, method, scope) = ("/ready".into(), "GET".into(), "open");
        let labels = RequestLabels { route, method, scope, status: 200 };
        metrics.answered(labels, Duration::from_millis(3));
        let page = Exposition::OpenMetrics("1.0.0").page(&metrics.register(Registry::default()));
        let line =
            "sandur_http_requests_total{route=\"/ready\",method=\"GET\",scope=\"open\",status=\"200\"} 1";
        assert!(page.contains(line), "{page}");
        assert!(
            page.contains("sandur_http_request_seconds_bucket{le=\"0.004\",route=\"/ready\"} 1"),
            "{page}"
        );
    }
}
