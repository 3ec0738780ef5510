//! The kinds of faults, and their probabilities.
//!
//! A probability, between 0 and 1, is that of one request of an operation to which the fault applies.

use std::time::Duration;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read an object or its size, completely or in part.
    Get,
    /// Overwrite an object.
    Put,
    /// Write an object if it does not exist.
    Create,
    /// Write an object if it has not changed.
    Update,
    /// Begin, continue, complete or abort an upload in parts.
    Upload,
    /// List objects.
    List,
    /// Delete an object.
    Delete,
}

impl Op {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Create => "create",
            Self::Update => "update",
            Self::Upload => "upload",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }

    pub(crate) fn is_write(self) -> bool {
        matches!(self, Self::Put | Self::Create | Self::Update | Self::Delete)
    }

    pub(crate) fn is_conditional(self) -> bool {
        matches!(self, Self::Create | Self::Update)
    }
}

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection fails before anything is sent.
    Refused,
    /// 503 SlowDown; nothing is applied.
    Throttled,
    /// Like [`Fault::Throttled`], with `Retry-After` in whole seconds.
    RetryAfter(Duration),
    /// 500; nothing is applied.
    Failed,
    /// 403: the credentials do not permit the request; nothing is applied.
    Denied,
    /// Nothing is applied, and there is no response.
    Hang,
    /// The request takes this much longer; half of the time passes before it is applied.
    Slow(Duration),
    /// The write is applied and its response is lost: a connection error.
    LostAck,
    /// A connection error; the write is applied after this time.
    LateApply(Duration),
    /// A layer below repeats the write after it was applied, so that a create fails with "already
    /// exists".
    AppliedTwice,
    /// 409 or 412 although the condition holds; nothing is applied.
    FalseConflict,
    /// The body ends early without an error.
    Truncated,
    /// The body ends early with an error.
    BrokenBody,
    /// The listing lacks recently written objects and contains recently deleted ones.
    StaleList,
    /// The listing ends early with an error.
    PartialList,
    /// The delete is acknowledged and applied after this time.
    DelayedDelete(Duration),
}

impl Fault {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Throttled => "throttled",
            Self::RetryAfter(_) => "retry_after",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Hang => "hang",
            Self::Slow(_) => "slow",
            Self::LostAck => "lost_ack",
            Self::LateApply(_) => "late_apply",
            Self::AppliedTwice => "applied_twice",
            Self::FalseConflict => "false_conflict",
            Self::Truncated => "truncated",
            Self::BrokenBody => "broken_body",
            Self::StaleList => "stale_list",
            Self::PartialList => "partial_list",
            Self::DelayedDelete(_) => "delayed_delete",
        }
    }
}

/// The probabilities of faults, and the latencies.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultPlan {
    /// Median latency of a request; latencies are log-normal.
    pub latency_median: Duration,
    /// Standard deviation of the logarithm of the latency: 0 makes all latencies equal, 0.5 resembles
    /// S3.
    pub latency_sigma: f64,
    /// Added to the latency of each [`Op::Get`]: a distant bucket.
    pub get_extra: Duration,
    /// Added to the latency of each request: an overloaded bucket.
    pub extra: Duration,
    /// Whether every write and delete is [`Fault::Denied`].
    pub denies_writes: bool,
    /// Whether every read and listing is [`Fault::Denied`].
    pub denies_reads: bool,
    /// Requests that are accepted per second; others are [`Fault::Throttled`]. 0: no limit.
    pub requests_per_second: f64,
    /// Requests by which a burst may exceed that rate.
    pub requests_burst: f64,
    /// Probability that a request takes up to `spike_max` longer ([`Fault::Slow`]).
    pub spike: f64,
    /// The largest additional latency of `spike`.
    pub spike_max: Duration,
    /// [`Fault::Refused`].
    pub refused: f64,
    /// [`Fault::Throttled`] outside of bursts.
    pub throttled: f64,
    /// Probability that a request begins a burst in which most requests are throttled.
    pub burst: f64,
    /// The longest burst.
    pub burst_max: Duration,
    /// [`Fault::Failed`].
    pub failed: f64,
    /// [`Fault::Hang`].
    pub hang: f64,
    /// [`Fault::LostAck`], writes only.
    pub lost_ack: f64,
    /// [`Fault::LateApply`], writes only.
    pub late_apply: f64,
    /// The longest delay of [`Fault::LateApply`].
    pub late_max: Duration,
    /// [`Fault::AppliedTwice`], writes only.
    pub applied_twice: f64,
    /// [`Fault::FalseConflict`], creates and updates only.
    pub false_conflict: f64,
    /// [`Fault::Truncated`], reads only.
    pub truncated: f64,
    /// [`Fault::BrokenBody`], reads only.
    pub broken_body: f64,
    /// [`Fault::StaleList`].
    pub stale_list: f64,
    /// How far back a stale listing may be.
    pub stale_max: Duration,
    /// [`Fault::PartialList`].
    pub partial_list: f64,
    /// Probability that a listing is in random order.
    pub unordered_list: f64,
    /// [`Fault::DelayedDelete`].
    pub delayed_delete: f64,
}

impl FaultPlan {
    /// No faults and no latency.
    pub fn none() -> Self {
        Self {
            latency_median: Duration::ZERO,
            latency_sigma: 0.0,
            get_extra: Duration::ZERO,
            extra: Duration::ZERO,
            denies_writes: false,
            denies_reads: false,
            requests_per_second: 0.0,
            requests_burst: 0.0,
            spike: 0.0,
            spike_max: Duration::ZERO,
            refused: 0.0,
            throttled: 0.0,
            burst: 0.0,
            burst_max: Duration::ZERO,
            failed: 0.0,
            hang: 0.0,
            lost_ack: 0.0,
            late_apply: 0.0,
            late_max: Duration::ZERO,
            applied_twice: 0.0,
            false_conflict: 0.0,
            truncated: 0.0,
            broken_body: 0.0,
            stale_list: 0.0,
            stale_max: Duration::ZERO,
            partial_list: 0.0,
            unordered_list: 0.0,
            delayed_delete: 0.0,
        }
    }

    /// A distant bucket for measurements: every read takes 30 ms, everything else takes no time, and
    /// there are no faults.
    pub fn distant() -> Self {
        Self { get_extra: Duration::from_millis(30), ..Self::none() }
    }

    /// Latency like that of S3, and a limited number of requests per second: throttling that the client
    /// causes.
    pub fn limited(requests_per_second: f64) -> Self {
        Self { requests_per_second, requests_burst: requests_per_second / 10.0, ..Self::latency_only() }
    }

    /// Latency like that of S3, without faults.
    pub fn latency_only() -> Self {
        Self {
            latency_median: Duration::from_millis(20),
            latency_sigma: 0.5,
            spike: 0.005,
            spike_max: Duration::from_secs(1),
            unordered_list: 0.1,
            ..Self::none()
        }
    }

    /// About 3 % of the requests fail: a store with problems.
    pub fn some_faults() -> Self {
        Self {
            spike: 0.01,
            spike_max: Duration::from_secs(5),
            refused: 0.005,
            throttled: 0.005,
            burst: 0.000_5,
            burst_max: Duration::from_secs(2),
            failed: 0.005,
            hang: 0.001,
            lost_ack: 0.01,
            late_apply: 0.002,
            late_max: Duration::from_secs(60),
            applied_twice: 0.005,
            false_conflict: 0.005,
            truncated: 0.003,
            broken_body: 0.003,
            stale_list: 0.02,
            stale_max: Duration::from_secs(5),
            partial_list: 0.01,
            unordered_list: 0.5,
            delayed_delete: 0.05,
            ..Self::latency_only()
        }
    }

    /// About 20 % of the requests fail: protocols must survive this, even if slowly.
    pub fn many_faults() -> Self {
        Self {
            spike: 0.05,
            spike_max: Duration::from_secs(20),
            refused: 0.02,
            throttled: 0.03,
            burst: 0.003,
            burst_max: Duration::from_secs(5),
            failed: 0.03,
            hang: 0.005,
            lost_ack: 0.06,
            late_apply: 0.02,
            late_max: Duration::from_secs(300),
            applied_twice: 0.04,
            false_conflict: 0.03,
            truncated: 0.02,
            broken_body: 0.02,
            stale_list: 0.2,
            stale_max: Duration::from_secs(30),
            partial_list: 0.05,
            unordered_list: 1.0,
            delayed_delete: 0.3,
            ..Self::latency_only()
        }
    }
}
