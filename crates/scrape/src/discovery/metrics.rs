//! Counters of discovery. No metric has a label per job or name, so their number is bounded.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    /// How targets are found.
    kind: &'static str,
}

/// All kinds, so that counters are shown before they count.
const KINDS: [&str; 3] = ["dns", "kubernetes", "file"];

/// Counters of discovery. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub struct DiscoveryMetrics {
    refreshes: Family<KindLabels, Counter>,
    failures: Family<KindLabels, Counter>,
}

impl DiscoveryMetrics {
    /// Adds the counters to a registry.
    pub fn register(&self, registry: &mut Registry) {
        for kind in KINDS {
            drop(self.refreshes.get_or_create(&KindLabels { kind }));
            drop(self.failures.get_or_create(&KindLabels { kind }));
        }
        registry.register(
            "sandur_scrape_discovery_refreshes",
            "Look-ups of targets in DNS, Kubernetes and files",
            self.refreshes.clone(),
        );
        registry.register(
            "sandur_scrape_discovery_failures",
            "Look-ups of targets that failed, so that the previous targets are kept",
            self.failures.clone(),
        );
    }

    pub(crate) fn refreshed(&self, kind: &'static str, succeeded: bool) {
        self.refreshes.get_or_create(&KindLabels { kind }).inc();
        if !succeeded {
            self.failures.get_or_create(&KindLabels { kind }).inc();
        }
    }

    #[cfg(test)]
    pub(crate) fn failures_of(&self, kind: &'static str) -> u64 {
        self.failures.get_or_create(&KindLabels { kind }).get()
    }
}
