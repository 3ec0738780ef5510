//! What the store costs: requests, failures, retries, bytes and time, by class and operation.
//!
//! Every attempt counts as a request, because that is what a bucket bills. Handles are resolved
//! once: counting is a few atomic additions. Time is measured through the `Env`.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::classify::Failure;
use crate::intent::Class;
use crate::request::Call;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Read, whole or in part.
    Get,
    /// Read the size and time.
    Head,
    /// Write, overwriting.
    Put,
    /// Write if absent.
    Create,
    /// Write if unchanged.
    Update,
    /// Begin, continue or finish an upload in parts.
    Upload,
    /// Enumerate.
    List,
    /// Remove.
    Delete,
    /// Append to a local file.
    Append,
    /// Open the store.
    Open,
}

impl Operation {
    /// All operations, in the order of their numbers.
    pub const ALL: [Operation; 10] = [
        Operation::Get,
        Operation::Head,
        Operation::Put,
        Operation::Create,
        Operation::Update,
        Operation::Upload,
        Operation::List,
        Operation::Delete,
        Operation::Append,
        Operation::Open,
    ];

    /// The name in metrics and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::Put => "put",
            Self::Create => "create",
            Self::Update => "update",
            Self::Upload => "upload",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Append => "append",
            Self::Open => "open",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

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

/// 1 ms to 131 s, doubling.
fn latency_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 18))
}

/// Counters of one store.
pub struct Meter {
    requests: Family<Labels, Counter>,
    retries: Family<Labels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    bytes: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    cells: Vec<Cell>,
}

/// The handles of one class and operation.
struct Cell {
    requests: Counter,
    retries: Counter,
    bytes: Counter,
    errors: Counter,
    seconds: Histogram,
}

/// What one class did with one operation since the store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What for.
    pub class: Class,
    /// What was done.
    pub operation: Operation,
    /// Requests, retries included.
    pub requests: u64,
    /// Requests that were repetitions.
    pub retries: u64,
    /// Requests that failed; "not found" and "already exists" are answers, not failures.
    pub errors: u64,
    /// Bytes sent and received in bodies.
    pub bytes: u64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let (requests, retries, bytes) = (Family::default(), Family::default(), Family::default());
        let seconds = Family::new_with_constructor(latency_histogram as fn() -> Histogram);
        let cell = |class: Class, operation: Operation| {
            let labels = Labels { class: class.name(), operation: operation.name() };
            Cell {
                requests: requests.get_or_create_owned(&labels),
                retries: retries.get_or_create_owned(&labels),
                bytes: bytes.get_or_create_owned(&labels),
                errors: Counter::default(),
                seconds: seconds.get_or_create_owned(&labels),
            }
        };
        let pairs = Class::ALL.into_iter().flat_map(|c| Operation::ALL.map(|o| (c, o)));
        let cells = pairs.map(|(c, o)| cell(c, o)).collect();
        Self { requests, retries, errors: Family::default(), bytes, seconds, cells }
    }

    /// Adds the counters to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let store = registry.sub_registry_with_prefix("sandur_store");
        store.register("requests", "Requests to the store, retries included", self.requests.clone());
        store.register("retries", "Requests that repeated a failed one", self.retries.clone());
        store.register("errors", "Failed requests by reason", self.errors.clone());
        store.register("transferred_bytes", "Bytes in bodies, both ways", self.bytes.clone());
        store.register("request_seconds", "Time of a request, its body included", self.seconds.clone());
    }

    /// What was used so far, without the pairs that were never used.
    pub fn snapshot(&self) -> Vec<Usage> {
        let pairs = Class::ALL.into_iter().flat_map(|c| Operation::ALL.map(|o| (c, o)));
        let usage = pairs.zip(&self.cells).map(|((class, operation), cell)| Usage {
            class,
            operation,
            requests: cell.requests.get(),
            retries: cell.retries.get(),
            errors: cell.errors.get(),
            bytes: cell.bytes.get(),
        });
        usage.filter(|u| u.requests > 0).collect()
    }

    pub(crate) fn attempt(&self, call: &Call<'_>, took: Duration, failure: Option<&Failure>) {
        let cell = self.cell(call.intent.class, call.operation);
        cell.requests.inc();
        cell.seconds.observe(took.as_secs_f64());
        let Some(failure) = failure else { return };
        if failure.is_answer() {
            return;
        }
        cell.errors.inc();
        let (class, operation) = (call.intent.class.name(), call.operation.name());
        let labels = ErrorLabels { class, operation, reason: failure.label() };
        self.errors.get_or_create(&labels).inc();
    }

    pub(crate) fn retry(&self, call: &Call<'_>) {
        self.cell(call.intent.class, call.operation).retries.inc();
    }

    pub(crate) fn transferred(&self, class: Class, operation: Operation, bytes: u64) {
        self.cell(class, operation).bytes.inc_by(bytes);
    }

    fn cell(&self, class: Class, operation: Operation) -> &Cell {
        &self.cells[class.index() * Operation::ALL.len() + operation as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Cause;
    use crate::intent::Intent;

    #[test]
    fn attempts_are_counted_by_class_operation_and_reason() {
        let (meter, mut registry) = (Meter::new(), Registry::default());
        meter.register(&mut registry);
        let call = Call { intent: Intent::wal(), operation: Operation::Put, path: "wal/a/0", bytes: 7 };
        meter.attempt(&call, Duration::from_millis(3), Some(&Failure::new(Cause::Throttled, "503")));
        meter.retry(&call);
        meter.transferred(Class::Wal, Operation::Put, 7);
        meter.attempt(&call, Duration::from_millis(3), None);
        let read = Call { operation: Operation::Get, ..call };
        meter.attempt(&read, Duration::ZERO, Some(&Failure::new(Cause::NotFound, "404")));
        let (class, operation) = (Class::Wal, Operation::Put);
        let put = Usage { class, operation, requests: 2, retries: 1, errors: 1, bytes: 7 };
        let get = Usage { operation: Operation::Get, requests: 1, retries: 0, errors: 0, bytes: 0, ..put };
        assert_eq!(meter.snapshot(), vec![get, put]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "sandur_store_requests_total{class=\"wal\",operation=\"put\"} 2",
            "sandur_store_errors_total{class=\"wal\",operation=\"put\",reason=\"throttled\"} 1",
            "sandur_store_transferred_bytes_total{class=\"wal\",operation=\"put\"} 7",
            "sandur_store_request_seconds_count{class=\"wal\",operation=\"put\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn operations_are_numbered_in_order() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
        }
    }
}
