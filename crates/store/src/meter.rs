//! Counts requests, failures, retries, bytes, time and dollars, by class and operation.
//!
//! Every attempt counts as a request when it is sent, because a bucket bills it, even if its caller
//! stops waiting for the response. Counter handles are resolved once, so counting costs a few atomic
//! additions. Time is measured through the `Env`.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::call::Call;
use crate::classify::Failure;
use crate::gauges::Gauges;
use crate::intent::Class;
use crate::operation::Operation;
use crate::prices::Prices;

/// Objects on one page of a listing: the page size of S3 and GCS, and the smallest of all stores.
const LISTED_PER_PAGE: u64 = 1_000;

type CostCounter = Counter<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    class: &'static str,
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    class: &'static str,
    operation: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HedgeLabels {
    outcome: &'static str,
}

/// The outcome of a second request for a slow read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HedgeOutcome {
    /// It was answered first.
    Won,
    /// The first request was answered first.
    Lost,
    /// The second request failed.
    Failed,
    /// It was not sent: no budget, no free slot, or the store had throttled recently.
    Withheld,
}

impl HedgeOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Won => "won",
            Self::Lost => "lost",
            Self::Failed => "failed",
            Self::Withheld => "withheld",
        }
    }
}

/// Bins from 1 ms to 131 s, doubling.
fn latency_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}

/// Counters of one store.
pub struct StoreCounters {
    requests: Family<Labels, Counter>,
    retries: Family<Labels, Counter>,
    cancelled: Family<Labels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    bytes: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    dollars: Family<Labels, CostCounter>,
    hedges: Family<HedgeLabels, Counter>,
    ranges_wanted: Counter,
    ranges_read: Counter,
    ranges_extra_bytes: Counter,
    pub(crate) tenant_delayed: Counter,
    pub(crate) tenant_wait_seconds: CostCounter,
    pub(crate) gauges: Gauges,
    prices: Prices,
    /// Handles by class and operation; made at first use, so that unused pairs have no series.
    cells: Vec<OnceLock<Cell>>,
}

/// The counter handles of one class and operation.
struct Cell {
    requests: Counter,
    retries: Counter,
    cancelled: Counter,
    bytes: Counter,
    errors: Counter,
    seconds: Histogram,
    dollars: CostCounter,
}

/// The requests of one class and operation since the store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The purpose of the requests.
    pub class: Class,
    /// The operation of the requests.
    pub operation: Operation,
    /// Number of requests, including retries and second requests.
    pub requests: u64,
    /// Number of retries.
    pub retries: u64,
    /// Number of failed requests; "not found" and "already exists" are not failures.
    pub errors: u64,
    /// Number of requests whose caller stopped waiting for the response.
    pub cancelled: u64,
    /// Bytes sent and received in bodies.
    pub bytes: u64,
}

impl Usage {
    /// No requests.
    pub fn none(class: Class, operation: Operation) -> Self {
        Self { class, operation, requests: 0, retries: 0, errors: 0, cancelled: 0, bytes: 0 }
    }
}

/// The reads of calls for several ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeUsage {
    /// Number of ranges that callers requested.
    pub wanted: u64,
    /// Number of requests that were planned for them.
    pub read: u64,
    /// Bytes of these requests that were not requested: gaps between ranges.
    pub extra_bytes: u64,
}

impl StoreCounters {
    pub(crate) fn new(prices: Prices) -> Self {
        Self {
            requests: Family::default(),
            retries: Family::default(),
            cancelled: Family::default(),
            errors: Family::default(),
            bytes: Family::default(),
            seconds: Family::new_with_constructor(latency_histogram as fn() -> Histogram),
            dollars: Family::default(),
            hedges: Family::default(),
            ranges_wanted: Counter::default(),
            ranges_read: Counter::default(),
            ranges_extra_bytes: Counter::default(),
            tenant_delayed: Counter::default(),
            tenant_wait_seconds: CostCounter::default(),
            gauges: Gauges::default(),
            prices,
            cells: (0..Class::ALL.len() * Operation::ALL.len()).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Registers the counters.
    pub fn register(&self, registry: &mut Registry) {
        let store = registry.sub_registry_with_prefix("sandur_store");
        store.register("requests", "Requests to the store, retries included", self.requests.clone());
        store.register("retries", "Requests that repeated a failed one", self.retries.clone());
        store.register("errors", "Failed requests by reason", self.errors.clone());
        store.register("cancelled", "Requests whose caller stopped waiting", self.cancelled.clone());
        store.register("transferred_bytes", "Bytes in bodies, both ways", self.bytes.clone());
        store.register("request_seconds", "Time of a request, its body included", self.seconds.clone());
        store.register("cost_dollars", "Cost of requests by the price table", self.dollars.clone());
        store.register("hedges", "Second requests for slow reads by outcome", self.hedges.clone());
        store.register("ranges_wanted", "Ranges of objects that were requested", self.ranges_wanted.clone());
        store.register("ranges_read", "Requests planned for these ranges", self.ranges_read.clone());
        let extra = self.ranges_extra_bytes.clone();
        store.register("ranges_extra_bytes", "Bytes read in the gaps between ranges", extra);
        let delayed = self.tenant_delayed.clone();
        store.register("tenant_delayed", "Requests that the rate limit of their tenant delayed", delayed);
        let waited = self.tenant_wait_seconds.clone();
        store.register("tenant_wait_seconds", "Time that these requests waited", waited);
        self.gauges.register(store);
    }

    /// The usage of each class and operation that had requests.
    pub fn snapshot(&self) -> Vec<Usage> {
        let pairs = Class::ALL.into_iter().flat_map(|c| Operation::ALL.map(|o| (c, o)));
        let usage = pairs.zip(&self.cells).filter_map(|((class, operation), cell)| {
            let cell = cell.get()?;
            Some(Usage {
                class,
                operation,
                requests: cell.requests.get(),
                retries: cell.retries.get(),
                errors: cell.errors.get(),
                cancelled: cell.cancelled.get(),
                bytes: cell.bytes.get(),
            })
        });
        usage.filter(|u| u.requests > 0).collect()
    }

    /// The reads of calls for several ranges.
    pub fn ranges(&self) -> RangeUsage {
        RangeUsage {
            wanted: self.ranges_wanted.get(),
            read: self.ranges_read.get(),
            extra_bytes: self.ranges_extra_bytes.get(),
        }
    }

    /// The number of second requests that won, and of those that did not.
    pub fn hedges(&self) -> (u64, u64) {
        let count = |outcome: HedgeOutcome| self.hedge_counter(outcome).get();
        (count(HedgeOutcome::Won), count(HedgeOutcome::Lost) + count(HedgeOutcome::Failed))
    }

    /// The cost of all requests so far, in dollars.
    pub fn dollars(&self) -> f64 {
        self.cells.iter().filter_map(OnceLock::get).map(|cell| cell.dollars.get()).sum()
    }

    /// The cost of the requests of a class so far, in dollars.
    pub fn dollars_of(&self, class: Class) -> f64 {
        let operations = Operation::ALL.len();
        let cells = &self.cells[class.index() * operations..][..operations];
        cells.iter().filter_map(OnceLock::get).map(|cell| cell.dollars.get()).sum()
    }

    /// The price table.
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    /// Counts a request that is being sent.
    pub(crate) fn sent(&self, call: &Call<'_>) -> Sent<'_> {
        let cell = self.cell(call.intent.class, call.operation);
        cell.requests.inc();
        cell.dollars.inc_by(self.prices.of_request(call.operation));
        let is_answered = false;
        Sent { meter: self, class: call.intent.class, operation: call.operation, is_answered }
    }

    pub(crate) fn retry(&self, call: &Call<'_>) {
        self.cell(call.intent.class, call.operation).retries.inc();
    }

    pub(crate) fn transferred(&self, class: Class, operation: Operation, bytes: u64) {
        let cell = self.cell(class, operation);
        cell.bytes.inc_by(bytes);
        cell.dollars.inc_by(self.prices.of_bytes(operation, bytes));
    }

    /// Counts the further pages of a listing that counted as one request and returned `objects` objects.
    pub(crate) fn listed(&self, class: Class, objects: u64) {
        let more = objects.div_ceil(LISTED_PER_PAGE).saturating_sub(1);
        let cell = self.cell(class, Operation::List);
        cell.requests.inc_by(more);
        cell.dollars.inc_by(self.prices.of_request(Operation::List) * more as f64);
    }

    pub(crate) fn hedge(&self, outcome: HedgeOutcome) {
        self.hedge_counter(outcome).inc();
    }

    pub(crate) fn planned(&self, usage: RangeUsage) {
        self.ranges_wanted.inc_by(usage.wanted);
        self.ranges_read.inc_by(usage.read);
        self.ranges_extra_bytes.inc_by(usage.extra_bytes);
    }

    fn hedge_counter(&self, outcome: HedgeOutcome) -> Counter {
        self.hedges.get_or_create_owned(&HedgeLabels { outcome: outcome.name() })
    }

    fn cell(&self, class: Class, operation: Operation) -> &Cell {
        let cell = &self.cells[class.index() * Operation::ALL.len() + operation as usize];
        cell.get_or_init(|| {
            let labels = Labels { class: class.name(), operation: operation.name() };
            Cell {
                requests: self.requests.get_or_create_owned(&labels),
                retries: self.retries.get_or_create_owned(&labels),
                cancelled: self.cancelled.get_or_create_owned(&labels),
                bytes: self.bytes.get_or_create_owned(&labels),
                errors: Counter::default(),
                seconds: self.seconds.get_or_create_owned(&labels),
                dollars: self.dollars.get_or_create_owned(&labels),
            }
        })
    }
}

/// A request in progress. Dropped without a response, it counts as cancelled.
pub(crate) struct Sent<'a> {
    meter: &'a StoreCounters,
    class: Class,
    operation: Operation,
    is_answered: bool,
}

impl Sent<'_> {
    /// Records the response, or the failure.
    pub fn answered(mut self, took: Duration, failure: Option<&Failure>) {
        self.is_answered = true;
        let cell = self.meter.cell(self.class, self.operation);
        cell.seconds.observe(took.as_secs_f64());
        let Some(failure) = failure.filter(|failure| !failure.is_answer()) else { return };
        cell.errors.inc();
        let (class, operation) = (self.class.name(), self.operation.name());
        let labels = ErrorLabels { class, operation, reason: failure.label() };
        self.meter.errors.get_or_create(&labels).inc();
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.meter.cell(self.class, self.operation).cancelled.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::intent::Intent;

    #[test]
    fn attempts_are_counted_by_class_operation_and_reason() {
        let (meter, mut registry) = (StoreCounters::new(Prices::default()), Registry::default());
        meter.register(&mut registry);
        let wal = Intent::wal();
        let call = Call { intent: &wal, operation: Operation::Put, path: "wal/a/0", bytes: 7 };
        let failure = Failure::new(Cause::Throttled, "503");
        meter.sent(&call).answered(Duration::from_millis(3), Some(&failure));
        meter.retry(&call);
        meter.transferred(Class::Wal, Operation::Put, 7);
        meter.sent(&call).answered(Duration::from_millis(3), None);
        drop(meter.sent(&call));
        let read = Call { operation: Operation::Get, ..call };
        meter.sent(&read).answered(Duration::ZERO, Some(&Failure::new(Cause::NotFound, "404")));
        let (class, operation) = (Class::Wal, Operation::Put);
        let put = Usage { class, operation, requests: 3, retries: 1, errors: 1, cancelled: 1, bytes: 7 };
        let get = Usage { operation: Operation::Get, requests: 1, ..Usage::none(class, operation) };
        assert_eq!(meter.snapshot(), vec![get, put]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "sandur_store_requests_total{class=\"wal\",operation=\"put\"} 3",
            "sandur_store_errors_total{class=\"wal\",operation=\"put\",reason=\"throttled\"} 1",
            "sandur_store_cancelled_total{class=\"wal\",operation=\"put\"} 1",
            "sandur_store_transferred_bytes_total{class=\"wal\",operation=\"put\"} 7",
            "sandur_store_request_seconds_count{class=\"wal\",operation=\"put\"} 2",
            "sandur_store_cost_dollars_total{class=\"wal\",operation=\"put\"} 0.000015",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!((meter.dollars() - 15.4e-6).abs() < 1e-9, "{}", meter.dollars());
        assert!((meter.dollars_of(Class::Wal) - meter.dollars()).abs() < 1e-12);
        assert_eq!(meter.dollars_of(Class::Block), 0.0);
    }

    #[test]
    fn each_page_of_a_listing_is_billed() {
        let (meter, gc) = (StoreCounters::new(Prices::default()), Intent::gc());
        let call = Call { intent: &gc, operation: Operation::List, path: "wal", bytes: 0 };
        meter.sent(&call).answered(Duration::ZERO, None);
        meter.listed(Class::Gc, 2_001);
        assert_eq!(meter.snapshot()[0].requests, 3);
    }
}
