//! Metrics of the HTTP side, and the page that shows all metrics of the process.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Labels of request counters. Routes are patterns, so that their number is bounded.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RequestLabels {
    /// Pattern of the path.
    pub route: String,
    /// Method.
    pub method: String,
    /// Status of the answer.
    pub status: u16,
}

/// Labels of durations.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RouteLabels {
    /// Pattern of the path.
    pub route: String,
}

/// Handles of the server's own metrics. Cheap to clone.
#[derive(Clone)]
pub struct ServerMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    /// Open connections.
    pub connections: Gauge,
    /// Bytes of accepted lines.
    pub pushed_bytes: Counter,
    /// Accepted entries.
    pub pushed_entries: Counter,
    /// Refused entries.
    pub refused_entries: Counter,
    /// Queries that ended, well or badly.
    pub queries: Counter,
    /// Bytes of lines that queries looked at.
    pub queried_bytes: Counter,
    /// Resident memory as the governor last saw it.
    pub resident_bytes: Gauge,
    /// Times that pushes were refused because memory was short.
    pub pressure_refusals: Counter,
    registry: Arc<Registry>,
}

fn histogram() -> Histogram {
    // 1 ms to 16 s in powers of two, 60 s on top: acknowledgements and queries both fit.
    let buckets = (0..15).map(|n| f64::from(1u32 << n) / 1_000.0).chain([60.0]);
    Histogram::new(buckets)
}

impl ServerMetrics {
    /// Registers the server's metrics beside those that are in the registry already.
    pub fn new(mut registry: Registry) -> Self {
        let mut metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(histogram as fn() -> Histogram),
            connections: Gauge::default(),
            pushed_bytes: Counter::default(),
            pushed_entries: Counter::default(),
            refused_entries: Counter::default(),
            queries: Counter::default(),
            queried_bytes: Counter::default(),
            resident_bytes: Gauge::default(),
            pressure_refusals: Counter::default(),
            registry: Arc::default(),
        };
        metrics.register(&mut registry);
        metrics.registry = Arc::new(registry);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        let m = self.clone();
        registry.register("sandur_http_requests", "Answered requests", m.requests);
        registry.register("sandur_http_request_seconds", "Time to answer requests", m.seconds);
        registry.register("sandur_http_connections", "Open connections", m.connections);
        registry.register("sandur_push_line_bytes", "Bytes of accepted lines", m.pushed_bytes);
        registry.register("sandur_push_entries", "Accepted entries", m.pushed_entries);
        registry.register("sandur_push_refused_entries", "Entries refused by a limit", m.refused_entries);
        registry.register("sandur_queries", "Queries that ended", m.queries);
        registry.register(
            "sandur_query_line_bytes",
            "Bytes of lines that queries looked at",
            m.queried_bytes,
        );
        registry.register("process_resident_memory_bytes", "Resident memory", m.resident_bytes);
        registry.register(
            "sandur_memory_pressure_refusals",
            "Pushes refused because resident memory was near its limit",
            m.pressure_refusals,
        );
    }

    /// Counts an answered request.
    pub fn answered(&self, labels: RequestLabels, took: Duration) {
        let route = RouteLabels { route: labels.route.clone() };
        self.seconds.get_or_create(&route).observe(took.as_secs_f64());
        self.requests.get_or_create(&labels).inc();
    }

    /// Every metric of the process in the OpenMetrics text format.
    pub fn page(&self) -> String {
        let mut page = String::new();
        encode(&mut page, &self.registry).expect("writing to a String does not fail");
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_method_and_status() {
        let metrics = ServerMetrics::new(Registry::default());
        let labels = RequestLabels { route: "/ready".into(), method: "GET".into(), status: 200 };
        metrics.answered(labels, Duration::from_millis(3));
        let page = metrics.page();
        let line = "sandur_http_requests_total{route=\"/ready\",method=\"GET\",status=\"200\"} 1";
        assert!(page.contains(line), "{page}");
        assert!(
            page.contains("sandur_http_request_seconds_bucket{le=\"0.004\",route=\"/ready\"} 1"),
            "{page}"
        );
    }
}
