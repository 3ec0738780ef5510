//! Counters of queries and writes of all protocols.

use std::sync::atomic::Ordering;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sandur_ingest::Reason;
use sandur_query::{FairQueue, ResultsCache};

/// Labels of outcomes.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    /// `hit`, `miss`, `outdated`, `stored` or `evicted`.
    outcome: &'static str,
}

/// Labels of lines that were left out of the log.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabels {
    /// `slow`, `failed` or `other`.
    kind: &'static str,
}

/// Labels of refusals.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    /// The reason of the refusal.
    reason: &'static str,
}

/// Counters of queries. Cheap to clone; all clones count together.
#[derive(Clone, Default)]
pub struct QueryMetrics {
    /// Queries that ended, with an answer or a failure.
    pub ended: Counter,
    /// Queries whose client disconnected.
    pub cancelled: Counter,
    /// Queries that were ended because memory was short.
    pub starved: Counter,
    /// Bytes of lines that queries examined.
    pub line_bytes: Counter,
    left_out_lines: Family<KindLabels, Counter>,
    running: Gauge,
    waiting: Gauge,
    followers: Gauge,
    step_units: Gauge,
    step_outcomes: Family<OutcomeLabels, Counter>,
}

impl QueryMetrics {
    /// Adds the counters to a registry.
    pub fn register(&self, all: &mut Registry) {
        let own = self.clone();
        all.register("sandur_queries", "Queries that ended", own.ended);
        let text = "Queries whose client disconnected before the answer";
        all.register("sandur_queries_cancelled", text, own.cancelled);
        let text = "Queries ended because resident memory was near its limit";
        all.register("sandur_queries_starved", text, own.starved);
        all.register("sandur_queries_running", "Running queries", own.running);
        all.register("sandur_queries_waiting", "Queries that wait in the queue", own.waiting);
        all.register("sandur_query_line_bytes", "Bytes of lines that queries examined", own.line_bytes);
        let text = "Lines of queries that were left out of the log of the process, see query.log";
        all.register("sandur_query_log_left_out_lines", text, own.left_out_lines);
        all.register("sandur_followers", "Clients that follow new lines", own.followers);
        all.register("sandur_result_cache_units", "Units in the step cache", own.step_units);
        let text = "Outcomes of look-ups and stores in the step cache";
        all.register("sandur_result_cache_outcomes", text, own.step_outcomes);
    }

    /// Counts a line of this kind that is left out of the log of the process.
    pub(crate) fn leave_out_line(&self, kind: &'static str) {
        self.left_out_lines.get_or_create(&KindLabels { kind }).inc();
    }

    /// Updates the gauges.
    pub(crate) fn observe(&self, turns: [&FairQueue; 2], followers: u64, steps: &ResultsCache) {
        // A query with a turn of the second queue waits or runs in the first one.
        self.running.set(turns[0].running() as i64);
        self.waiting.set(turns.iter().map(|turns| turns.waiting() as i64).sum());
        self.followers.set(followers as i64);
        let figures = steps.figures();
        self.step_units.set(figures.units as i64);
        for (outcome, count) in [
            ("hit", figures.hits),
            ("miss", figures.misses),
            ("outdated", figures.outdated),
            ("stored", figures.stored),
            ("evicted", figures.evicted),
        ] {
            // The cache counts; this copies its counters.
            self.step_outcomes
                .get_or_create(&OutcomeLabels { outcome })
                .inner()
                .store(count, Ordering::Relaxed);
        }
    }
}

/// Counters of writes. Cheap to clone; all clones count together.
#[derive(Clone, Default)]
pub struct WriteMetrics {
    /// Bytes of accepted lines.
    pub line_bytes: Counter,
    /// Accepted entries of streams.
    pub entries: Counter,
    /// Entries that a limit refused.
    pub refused_entries: Counter,
    /// Accepted float samples.
    pub samples: Counter,
    /// Accepted native histograms.
    pub histograms: Counter,
    /// Accepted exemplars.
    pub exemplars: Counter,
    refused_samples: Family<ReasonLabels, Counter>,
    /// Series of delta temporality that are added up.
    pub delta_series: Gauge,
    /// Pushes that were refused because memory was short.
    pub pressure_refusals: Counter,
}

impl WriteMetrics {
    /// Adds the counters to a registry.
    pub fn register(&self, all: &mut Registry) {
        let own = self.clone();
        all.register("sandur_push_line_bytes", "Bytes of accepted lines", own.line_bytes);
        all.register("sandur_push_entries", "Accepted entries", own.entries);
        all.register("sandur_push_refused_entries", "Entries refused by a limit", own.refused_entries);
        all.register("sandur_push_samples", "Accepted float samples", own.samples);
        all.register("sandur_push_histograms", "Accepted native histograms", own.histograms);
        all.register("sandur_push_exemplars", "Accepted exemplars", own.exemplars);
        let text = "Samples, histograms and exemplars refused by a limit";
        all.register("sandur_push_refused_samples", text, own.refused_samples);
        // From the start: a rate does not see that a series begins at 1.
        for reason in Reason::EVERY {
            self.refused_samples(reason.name(), 0);
        }
        all.register("sandur_push_delta_series", "Delta series that are added up", own.delta_series);
        let text = "Pushes refused because resident memory was near its limit";
        all.register("sandur_memory_pressure_refusals", text, own.pressure_refusals);
    }

    /// Counts samples that a limit refused.
    pub fn refused_samples(&self, reason: &'static str, samples: u64) {
        self.refused_samples.get_or_create(&ReasonLabels { reason }).inc_by(samples);
    }
}
