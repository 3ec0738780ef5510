//! The running queries, of which the one that holds the most memory can be cancelled.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_base::units::MIB;
use sandur_query::{QueryContext, WatchedQuery};

/// The running queries, of which the memory governor cancels one. Cheap to clone.
#[derive(Clone, Default)]
pub struct RunningQueries(Arc<Mutex<Vec<WatchedQuery>>>);

impl RunningQueries {
    fn lock(&self) -> MutexGuard<'_, Vec<WatchedQuery>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a query until it ends.
    pub fn add(&self, context: &QueryContext) {
        let mut all = self.lock();
        all.retain(|query| !query.is_over());
        all.push(context.watch());
    }

    /// Cancels the query that holds the most memory, unless it holds less than 1 MiB. Returns the bytes that
    /// it held.
    pub fn end_largest(&self) -> Option<u64> {
        let all = self.lock();
        let held = all.iter().filter_map(|query| Some((query.used()?, query)));
        let (used, largest) = held.max_by_key(|(used, _)| *used).filter(|(used, _)| *used >= WORTH_ENDING)?;
        largest.end_for_memory();
        Some(used)
    }
}

/// A query that holds fewer bytes is not the cause of the shortage.
const WORTH_ENDING: u64 = MIB;

#[cfg(test)]
mod tests {
    use std::alloc::System;
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_memory::account::Counting;
    use sandur_model::TenantId;
    use sandur_runtime::Env;

    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting<System> = Counting(System);

    #[test]
    fn the_query_that_holds_most_is_ended_and_says_why() {
        let queries = RunningQueries::default();
        let context = || {
            let (env, tenant) = (Env::simulated(1, 0), TenantId::default_tenant());
            QueryContext::new(env, tenant, MemoryBudget::root("query", 1 << 30), Duration::from_secs(3_600))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (small, large) = (context(), context());
            queries.add(&small);
            queries.add(&large);
            assert_eq!(queries.end_largest(), None, "no query holds memory");
            let held: Vec<Vec<u8>> = [(&small, 2usize << 20), (&large, 4 << 20)]
                .map(|(context, bytes)| context.account().run(|| vec![0u8; bytes]))
                .into();
            assert_eq!(queries.end_largest(), Some(4 << 20));
            assert!(small.check().is_ok());
            let refused = large.check().unwrap_err();
            assert!(refused.to_string().contains("short of memory"), "{refused}");
            assert_eq!(queries.end_largest(), Some(2 << 20), "the next largest query");
            drop((held, small, large));
            queries.add(&context());
            assert_eq!(queries.lock().len(), 1, "queries that ended are forgotten");
        });
    }
}
