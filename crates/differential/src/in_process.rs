//! Runs queries of our languages in this process, each within a budget of memory and of time.

use std::time::Duration;

use anyhow::Result;
use sandur_memory::MemoryBudget;
use sandur_model::TenantId;
use sandur_query::QueryContext;
use sandur_runtime::Env;

/// The longest time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory budget of a query, in bytes.
const QUERY_BYTES: u64 = 1 << 30;

/// The clock, the CPU pool and the thread of queries.
pub struct InProcess {
    env: Env,
    runtime: tokio::runtime::Runtime,
}

impl InProcess {
    /// Prepares to run queries.
    pub fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Self { env: Env::system(1), runtime })
    }

    /// Returns the context of a query.
    pub fn context(&self) -> QueryContext {
        let budget = MemoryBudget::root("query", QUERY_BYTES);
        QueryContext::new(self.env.clone(), TenantId::default_tenant(), budget, PATIENCE)
    }

    /// Waits for the result of a query.
    pub fn run<T>(&self, query: impl Future<Output = T>) -> T {
        self.runtime.block_on(query)
    }
}
