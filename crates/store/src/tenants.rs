//! Limits the rate at which the queries of a tenant may use the store, with token buckets.
//!
//! A bucket stores one number: the time at which it would be full again (the generic cell rate
//! algorithm). A request takes its tokens when it arrives and learns how long to wait for them, so
//! requests of a tenant proceed in the order of their arrival, and none polls. A request that is larger
//! than the burst waits for a full bucket and leaves it in debt. Bytes whose number was unknown are
//! charged afterwards. A full bucket has the same effect as no bucket, so full buckets are removed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_base::units::ByteSize;
use sandur_runtime::Env;

use crate::cause::Cause;
use crate::classify::Failure;
use crate::request_limits::{RatesOf, TenantRates};

/// Number of buckets from which on full ones are removed.
const FORGET_FROM: usize = 256;

/// The buckets of all tenants of a store.
pub(crate) struct Tenants {
    env: Env,
    rates_of: RatesOf,
    buckets: Mutex<Buckets>,
}

#[derive(Default)]
struct Buckets {
    of: HashMap<Arc<str>, Pair>,
    forget_at: usize,
}

/// The two buckets of a tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    requests: Bucket,
    bytes: Bucket,
}

/// The time at which the bucket is full again.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket(Duration);

impl Bucket {
    /// Takes tokens; returns the time until they are available.
    fn take(&mut self, now: Duration, tokens: u64, rate: u64, burst: u64) -> Duration {
        if rate == 0 || tokens == 0 {
            return Duration::ZERO;
        }
        let full_at = self.0.max(now);
        let (burst, cost) = (time_of(burst.max(1), rate), time_of(tokens, rate));
        self.0 = full_at + cost;
        (full_at + cost.min(burst)).saturating_sub(burst).saturating_sub(now)
    }

    fn give_back(&mut self, tokens: u64, rate: u64) {
        if rate > 0 {
            self.0 = self.0.saturating_sub(time_of(tokens, rate));
        }
    }
}

fn time_of(tokens: u64, rate: u64) -> Duration {
    let nanos = u128::from(tokens) * 1_000_000_000 / u128::from(rate);
    // A year: longer than any wait, and far below an overflow.
    Duration::from_nanos(nanos.min(365 * 86_400 * 1_000_000_000) as u64)
}

impl Tenants {
    pub fn new(env: Env, rates_of: RatesOf) -> Self {
        let buckets = Mutex::new(Buckets { of: HashMap::new(), forget_at: FORGET_FROM });
        Self { env, rates_of, buckets }
    }

    /// Waits until the tenant may send a request for `bytes`, at most `patience`; returns the time
    /// waited.
    pub async fn admit(
        &self,
        tenant: &Arc<str>,
        bytes: u64,
        patience: Duration,
    ) -> Result<Duration, Failure> {
        let (now, rates) = (self.env.monotonic(), (self.rates_of)(tenant));
        let wait = self.take(tenant, now, 1, bytes, &rates);
        if wait.is_zero() {
            return Ok(wait);
        }
        let taken = Taken { tenants: self, tenant, bytes, rates, is_used: false };
        if wait > patience {
            return Err(too_long(tenant, &rates, wait));
        }
        self.env.sleep(wait).await;
        taken.spend();
        Ok(wait)
    }

    /// Charges bytes that were received without prior admission.
    pub fn charge(&self, tenant: &Arc<str>, bytes: u64) {
        let (now, rates) = (self.env.monotonic(), (self.rates_of)(tenant));
        self.take(tenant, now, 0, bytes, &rates);
    }

    fn take(
        &self,
        tenant: &Arc<str>,
        now: Duration,
        requests: u64,
        bytes: u64,
        rates: &TenantRates,
    ) -> Duration {
        let mut buckets = self.buckets();
        if buckets.of.len() >= buckets.forget_at {
            buckets.of.retain(|_, pair| pair.requests.0 > now || pair.bytes.0 > now);
            buckets.forget_at = (buckets.of.len() * 2).max(FORGET_FROM);
        }
        let pair = buckets.of.entry(Arc::clone(tenant)).or_default();
        let for_slot = pair.requests.take(now, requests, rates.requests_per_second, rates.requests_burst);
        let for_bytes = pair.bytes.take(now, bytes, rates.bytes_per_second, rates.bytes_burst);
        for_slot.max(for_bytes)
    }

    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tokens of a request that has not been sent; dropping it returns them.
struct Taken<'a> {
    tenants: &'a Tenants,
    tenant: &'a Arc<str>,
    bytes: u64,
    rates: TenantRates,
    is_used: bool,
}

impl Taken<'_> {
    fn spend(mut self) {
        self.is_used = true;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.is_used {
            return;
        }
        if let Some(pair) = self.tenants.buckets().of.get_mut(self.tenant) {
            pair.requests.give_back(1, self.rates.requests_per_second);
            pair.bytes.give_back(self.bytes, self.rates.bytes_per_second);
        }
    }
}

fn too_long(tenant: &str, rates: &TenantRates, wait: Duration) -> Failure {
    let reason = format!(
        "tenant '{tenant}' exceeds its rate and would wait {wait:.1?}: its queries may send {} requests \
         (limits.store_request_rate) and read {} (limits.store_read_rate) per second",
        rates.requests_per_second,
        ByteSize(rates.bytes_per_second)
    );
    Failure::new(Cause::Busy, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants(rates: TenantRates) -> (Env, Tenants) {
        let env = Env::simulated(1, 0);
        (env.clone(), Tenants::new(env, Arc::new(move |_| rates)))
    }

    const TEN: TenantRates = TenantRates {
        requests_per_second: 10,
        requests_burst: 5,
        bytes_per_second: 1_000,
        bytes_burst: 2_000,
    };

    /// The seconds that `count` requests of `bytes` take.
    async fn time(env: &Env, tenants: &Tenants, name: &str, count: u32, bytes: u64) -> f64 {
        let (began, name) = (env.monotonic(), name.into());
        for _ in 0..count {
            tenants.admit(&name, bytes, Duration::from_secs(60)).await.unwrap();
        }
        (env.monotonic() - began).as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_burst_the_rate_applies_to_each_tenant_separately() {
        let (env, tenants) = tenants(TEN);
        assert!((time(&env, &tenants, "a", 5, 0).await) < 0.001);
        assert!((time(&env, &tenants, "a", 20, 0).await - 2.0).abs() < 0.01);
        assert!((time(&env, &tenants, "b", 5, 0).await) < 0.001, "b has its own bucket");
        env.sleep(Duration::from_secs(10)).await;
        assert!((time(&env, &tenants, "a", 3, 2_000).await - 4.0).abs() < 0.01, "bytes count too");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_larger_than_the_burst_pass_and_delay_the_next() {
        let (env, tenants) = tenants(TEN);
        assert!((time(&env, &tenants, "a", 1, 10_000).await) < 0.001);
        assert!((time(&env, &tenants, "a", 1, 1).await - 8.001).abs() < 0.01);
        let name: Arc<str> = "c".into();
        tenants.charge(&name, 5_000);
        assert!((time(&env, &tenants, "c", 1, 1).await - 3.001).abs() < 0.01);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_or_dropped_request_costs_no_tokens() {
        let (env, tenants) = tenants(TEN);
        let name: Arc<str> = "a".into();
        time(&env, &tenants, "a", 5, 0).await;
        for _ in 0..100 {
            let refused = tenants.admit(&name, 0, Duration::from_millis(50)).await.unwrap_err();
            assert!(refused.reason.contains("store_request_rate") && refused.cause == Cause::Busy);
            let gone = env.timeout(Duration::ZERO, tenants.admit(&name, 0, Duration::from_secs(9))).await;
            assert!(gone.is_none());
        }
        assert!((time(&env, &tenants, "a", 1, 0).await) < 0.11);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_of_zero_is_unlimited_and_full_buckets_are_removed() {
        let none =
            TenantRates { requests_per_second: 0, requests_burst: 0, bytes_per_second: 0, bytes_burst: 0 };
        let (env, unlimited) = tenants(none);
        assert!(time(&env, &unlimited, "a", 10_000, 1 << 30).await < 0.001);
        let (env, many) = tenants(TEN);
        for n in 0..10_000 {
            time(&env, &many, &n.to_string(), 1, 0).await;
            env.sleep(Duration::from_millis(10)).await;
        }
        assert!(many.buckets().of.len() <= FORGET_FROM);
    }
}
