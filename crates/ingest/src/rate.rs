//! Ingestion rates of tenants: one token bucket over raw bytes (lines and their metadata), another over
//! samples.
//!
//! A request is accepted or refused as a unit. A request larger than the burst can never pass, and the
//! message says so. Time is the reading of the monotonic clock; a reading older than the last one adds no
//! tokens. A full bucket is equivalent to none, so idle tenants are forgotten.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use sandur_base::ErrorKind;
use sandur_model::{Limits, MetricLimits, TenantId};

/// Most tenants with a bucket; at this number full buckets are dropped. If all are in use, a further
/// tenant is limited only by its burst.
const BUCKETS_MAX: usize = 10_000;

/// A request above the tenant's rate. None of it was kept; the client may send it again later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "ingestion rate limit exceeded for user {tenant} (limit: {limit} bytes/sec, burst: {burst} bytes) while \
     attempting to ingest '{lines}' lines totaling '{bytes}' bytes, {remedy}"
)]
pub struct RateLimited {
    /// The tenant whose limit is exceeded.
    pub tenant: TenantId,
    /// `ingestion_rate` in bytes per second.
    pub limit: u64,
    /// Most bytes that may be sent at once.
    pub burst: u64,
    /// Lines of the request.
    pub lines: u64,
    /// Raw bytes of the request.
    pub bytes: u64,
    remedy: &'static str,
}

impl RateLimited {
    /// Returns the kind that decides the status code: the same request may pass later.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::RateLimited
    }
}

/// A request with more samples than the tenant's rate allows. None of it was kept; the client may send it
/// again later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the request has been rejected because the tenant exceeded the ingestion rate limit, set to {limit} \
     items/s with a maximum allowed burst of {burst}. This limit is applied on the total number of samples, \
     exemplars and metadata received (err-mimir-tenant-max-ingestion-rate); the request has {items}. To \
     adjust the related per-tenant limits, configure limits.metrics.ingestion_rate and \
     limits.metrics.ingestion_burst_size"
)]
pub struct SamplesRateLimited {
    /// `ingestion_rate` in samples per second.
    pub limit: u64,
    /// Most samples that may be sent at once.
    pub burst: u64,
    /// Samples, histograms, exemplars and metadata of the request.
    pub items: u64,
}

impl SamplesRateLimited {
    /// Returns the kind that decides the status code: the same request may pass later.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::RateLimited
    }
}

/// The buckets of all tenants: one for bytes of lines, one for samples.
#[derive(Debug)]
pub struct RateLimiter {
    bytes: Mutex<Buckets>,
    samples: Mutex<Buckets>,
}

type Buckets = HashMap<TenantId, Bucket>;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Bytes or samples that are available at time `at`.
    tokens: f64,
    /// Monotonic time of the last update of `tokens`.
    at: Duration,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self { bytes: Mutex::new(HashMap::new()), samples: Mutex::new(HashMap::new()) }
    }
}

impl RateLimiter {
    /// Takes the raw bytes of a request from the tenant's bucket, or refuses the request. `now` is the
    /// monotonic time.
    pub fn take(
        &self,
        tenant: &TenantId,
        limits: &Limits,
        now: Duration,
        (lines, bytes): (u64, u64),
    ) -> Result<(), RateLimited> {
        let (limit, burst) =
            (limits.ingestion_rate, or_second(limits.ingestion_burst, limits.ingestion_rate));
        if limit == 0 || grant(&self.bytes, tenant, (limit, burst), now, bytes) {
            return Ok(());
        }
        let remedy = if bytes > burst {
            "send smaller batches or have ingestion_burst raised"
        } else {
            "reduce log volume or have ingestion_rate raised"
        };
        Err(RateLimited { tenant: tenant.clone(), limit, burst, lines, bytes, remedy })
    }

    /// Takes the samples, exemplars and metadata of a request from the tenant's bucket, or refuses the
    /// request.
    pub fn take_samples(
        &self,
        tenant: &TenantId,
        limits: &MetricLimits,
        now: Duration,
        items: u64,
    ) -> Result<(), SamplesRateLimited> {
        let limit = limits.ingestion_rate;
        let burst = or_second(limits.ingestion_burst_size, limit);
        if limit == 0 || grant(&self.samples, tenant, (limit, burst), now, items) {
            return Ok(());
        }
        Err(SamplesRateLimited { limit, burst, items })
    }
}

/// Returns the burst; when it is 0, one second's worth of the limit.
fn or_second(burst: u64, limit: u64) -> u64 {
    if burst == 0 { limit } else { burst }
}

/// Takes `amount` tokens from the tenant's bucket if it has as many, and returns whether it did.
fn grant(
    buckets: &Mutex<Buckets>,
    tenant: &TenantId,
    (limit, burst): (u64, u64),
    now: Duration,
    amount: u64,
) -> bool {
    let full = Bucket { tokens: burst as f64, at: now };
    let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
    if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(tenant) {
        buckets.retain(|_, b| b.filled(now, limit, burst).tokens < burst as f64);
    }
    let mut bucket = buckets.get(tenant).map_or(full, |b| b.filled(now, limit, burst));
    let enough = bucket.tokens >= amount as f64;
    if enough {
        bucket.tokens -= amount as f64;
    }
    if buckets.len() < BUCKETS_MAX || buckets.contains_key(tenant) {
        buckets.insert(tenant.clone(), bucket);
    }
    enough
}

impl Bucket {
    fn filled(self, now: Duration, limit: u64, burst: u64) -> Self {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        let tokens = (self.tokens + passed * limit as f64).min(burst as f64);
        Self { tokens, at: self.at.max(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    #[test]
    fn a_bucket_is_emptied_and_refilled_over_time() {
        let limiter = RateLimiter::default();
        let limits = Limits { ingestion_rate: 100, ingestion_burst: 150, ..Limits::default() };
        let take = |at: Duration, bytes| limiter.take(&tenant("a"), &limits, at, (1, bytes));
        assert!(take(SECOND, 150).is_ok());
        assert!(take(SECOND, 1).is_err());
        assert!(take(SECOND * 2, 101).is_err()); // refused as a unit: nothing is taken
        assert!(take(SECOND * 2, 100).is_ok());
        assert!(take(SECOND, 1).is_err()); // an older clock adds nothing
        assert!(take(SECOND * 60, 150).is_ok()); // never more than the burst
        assert!(take(SECOND * 60, 1).is_err());
        assert!(limiter.take(&tenant("b"), &limits, SECOND, (1, 150)).is_ok()); // buckets are per tenant
        assert!(limiter.take(&tenant("a"), &Limits::default(), SECOND, (1, u64::MAX)).is_ok());
    }

    #[test]
    fn the_message_names_limit_and_remedy() {
        let limiter = RateLimiter::default();
        let limits = Limits { ingestion_rate: 100, ..Limits::default() };
        let error = limiter.take(&tenant("a"), &limits, SECOND, (3, 101)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ingestion rate limit exceeded for user a (limit: 100 bytes/sec, burst: 100 bytes) while \
             attempting to ingest '3' lines totaling '101' bytes, send smaller batches or have \
             ingestion_burst raised"
        );
        assert!(error.kind().is_retryable());
        limiter.take(&tenant("a"), &limits, SECOND, (1, 60)).unwrap();
        let error = limiter.take(&tenant("a"), &limits, SECOND, (1, 60)).unwrap_err();
        assert!(error.to_string().ends_with("reduce log volume or have ingestion_rate raised"));
    }

    #[test]
    fn idle_tenants_are_forgotten() {
        let limiter = RateLimiter::default();
        let limits = Limits { ingestion_rate: 100, ..Limits::default() };
        for n in 0..2 * BUCKETS_MAX as u32 {
            let tenant = tenant(&format!("t{n}"));
            limiter.take(&tenant, &limits, SECOND * (n / 15_000), (1, 50)).unwrap();
        }
        assert!(limiter.bytes.lock().unwrap().len() <= BUCKETS_MAX);
    }
}
