//! What one query may use: its tenant, its deadline, its memory, and the counters it fills.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_base::{Env, MemoryBudget};
use sandur_model::TenantId;

use crate::error::Error;
use crate::stats::QueryStats;

/// One query's rights and duties. Shared by all of its tasks.
#[derive(Clone)]
pub struct QueryContext(Arc<Inner>);

struct Inner {
    env: Env,
    tenant: TenantId,
    budget: MemoryBudget,
    stats: QueryStats,
    started: Duration,
    timeout: Duration,
    cancelled: AtomicBool,
    partial: AtomicBool,
    warnings: Mutex<Vec<String>>,
}

/// More warnings than this are not kept: they would repeat each other.
const WARNINGS_MAX: usize = 20;

impl QueryContext {
    /// A context that ends `timeout` after now.
    pub fn new(env: Env, tenant: TenantId, budget: MemoryBudget, timeout: Duration) -> Self {
        let started = env.monotonic();
        Self(Arc::new(Inner {
            env,
            tenant,
            budget,
            stats: QueryStats::default(),
            started,
            timeout,
            cancelled: AtomicBool::new(false),
            partial: AtomicBool::new(false),
            warnings: Mutex::default(),
        }))
    }

    /// The world.
    pub fn env(&self) -> &Env {
        &self.0.env
    }

    /// Whose data is asked for.
    pub fn tenant(&self) -> &TenantId {
        &self.0.tenant
    }

    /// Memory of this query.
    pub fn budget(&self) -> &MemoryBudget {
        &self.0.budget
    }

    /// Counters of this query.
    pub fn stats(&self) -> &QueryStats {
        &self.0.stats
    }

    /// Time since the query began.
    pub fn elapsed(&self) -> Duration {
        self.0.env.monotonic().saturating_sub(self.0.started)
    }

    /// Ends the query at its next check.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Fails when the query was cancelled or its time is over. Called between pieces of work.
    pub fn check(&self) -> Result<(), Error> {
        if self.0.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        if self.elapsed() > self.0.timeout {
            return Err(Error::Timeout(self.0.timeout));
        }
        Ok(())
    }

    /// Lets an answer that exceeds a limit on its size be cut with a warning, where it would fail otherwise:
    /// for clients that ask for it.
    pub fn allow_partial(&self) {
        self.0.partial.store(true, Ordering::Relaxed);
    }

    /// Whether an answer that is too large is cut in place of refused.
    pub fn allows_partial(&self) -> bool {
        self.0.partial.load(Ordering::Relaxed)
    }

    /// Notes that the answer is incomplete or unusual; clients see it as a warning.
    pub fn warn(&self, warning: impl Into<String>) {
        let mut warnings = self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let warning = warning.into();
        if warnings.len() < WARNINGS_MAX && !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    /// The warnings so far.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
