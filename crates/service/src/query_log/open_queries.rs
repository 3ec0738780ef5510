//! The queries that run now: who asked what, since when, with how much memory; an operator can end one.
//!
//! An entry exists from the begin of a query's log to its end, also if the request is dropped: [`Entry`]
//! removes it. The number of entries and the bytes of each are bounded; further queries run without an
//! entry and are counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_model::TenantId;
use sandur_query::QueryContext;

use super::asked::Asked;
use crate::caller::Caller;
use crate::cost::Cost;

/// Maximum number of entries. With texts of at most 2.3 KiB they need less than 10 MiB.
pub const QUERIES_MAX: usize = 4_000;
/// Maximum bytes of a query's text, and of the user agent.
const TEXT_BYTES_MAX: usize = 2_048;
const OTHER_BYTES_MAX: usize = 256;

/// A query that runs.
#[derive(Clone)]
pub struct OpenQuery {
    /// Number of the query since the start of the process.
    pub id: u64,
    /// Who asked.
    pub tenant: TenantId,
    /// The beginning of the text.
    pub text: Arc<str>,
    /// As in the log line.
    pub query_type: &'static str,
    /// `logs` or `metrics`.
    pub signal: &'static str,
    /// Start of the range, nanoseconds since the epoch.
    pub start_ns: i64,
    /// End of the range, nanoseconds since the epoch.
    pub end_ns: i64,
    /// The client.
    pub user_agent: Arc<str>,
    context: QueryContext,
}

impl OpenQuery {
    /// Time since the query began.
    pub fn elapsed(&self) -> Duration {
        self.context.elapsed()
    }

    /// Bytes that the query holds.
    pub fn memory_bytes(&self) -> u64 {
        self.context.account().used()
    }

    /// The cost of the query so far.
    pub fn cost(&self) -> Cost {
        let counters = self.context.stats().snapshot();
        Cost { counters, execution: self.elapsed(), ..Cost::default() }
    }
}

#[derive(Default)]
struct Open {
    begun: u64,
    queries: BTreeMap<u64, OpenQuery>,
}

/// The running queries. Cheap to clone: a handle.
#[derive(Clone, Default)]
pub struct OpenQueries(Arc<Mutex<Open>>);

/// Removes a query from the list when it is dropped.
pub(super) struct Entry {
    all: OpenQueries,
    id: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // The query is dropped after the lock is released, because its drop may take long.
        let query = self.all.lock().queries.remove(&self.id);
        drop(query);
    }
}

impl OpenQueries {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a query until the entry is dropped; `None` if the list is full.
    pub(super) fn add(&self, asked: &Asked, caller: &Caller, context: &QueryContext) -> Option<Entry> {
        let cut = |text: &str, most: usize| Arc::from(&text[..text.floor_char_boundary(most)]);
        let mut open = self.lock();
        open.begun += 1;
        if open.queries.len() >= QUERIES_MAX {
            return None;
        }
        let id = open.begun;
        let query = OpenQuery {
            id,
            tenant: caller.tenant.clone(),
            text: cut(&asked.text, TEXT_BYTES_MAX),
            query_type: asked.query_type,
            signal: asked.signal,
            start_ns: asked.times.start_ns,
            end_ns: asked.times.end_ns,
            user_agent: cut(&caller.user_agent, OTHER_BYTES_MAX),
            context: context.clone(),
        };
        open.queries.insert(id, query);
        drop(open);
        Some(Entry { all: self.clone(), id })
    }

    /// The running queries, the oldest first. With tenants, only queries that read no data of others.
    pub fn all(&self, tenants: Option<&TenantId>) -> Vec<OpenQuery> {
        let is_shown = |query: &&OpenQuery| may_see(tenants, &query.tenant);
        self.lock().queries.values().filter(is_shown).cloned().collect()
    }

    /// Ends a query at its next check or wait. Returns it, or `None` if it does not run.
    pub fn end(&self, id: u64) -> Option<OpenQuery> {
        let query = self.lock().queries.get(&id).cloned()?;
        query.context.end_by_operator();
        Some(query)
    }
}

/// Whether a query of these tenants reads no data of tenants that are not named.
pub fn may_see(named: Option<&TenantId>, of: &TenantId) -> bool {
    named.is_none_or(|named| of.each().all(|one| named.each().any(|name| name == one)))
}

#[cfg(test)]
mod tests {
    use sandur_memory::MemoryBudget;
    use sandur_runtime::Env;

    use super::super::asked::Times;
    use super::*;

    fn context(env: &Env, tenant: &TenantId) -> QueryContext {
        let budget = MemoryBudget::root("query", 1 << 30);
        QueryContext::new(env.clone(), tenant.clone(), budget, Duration::from_secs(60))
    }

    fn asked(text: &str) -> Asked {
        Asked::labels("app", text, Times { start_ns: 1, end_ns: 2 })
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_is_listed_while_it_runs_and_its_tenant_sees_only_its_own() {
        let env = Env::simulated(1, 0);
        let open = OpenQueries::default();
        let caller = |name: &str| Caller::internal(TenantId::new(name).unwrap(), "test");
        let (a, b) = (caller("a"), caller("b"));
        let (of_a, of_b) = (context(&env, &a.tenant), context(&env, &b.tenant));
        let first = open.add(&asked("one"), &a, &of_a);
        let second = open.add(&asked(&"ü".repeat(5_000)), &b, &of_b);
        let texts = |tenant: Option<&TenantId>| -> Vec<usize> {
            open.all(tenant).iter().map(|query| query.text.len()).collect()
        };
        assert_eq!(texts(None), [3, TEXT_BYTES_MAX]);
        assert_eq!((texts(Some(&a.tenant)), texts(Some(&b.tenant))), (vec![3], vec![TEXT_BYTES_MAX]));
        assert!(texts(Some(&TenantId::new("c").unwrap())).is_empty());
        drop(first);
        assert_eq!(texts(None), [TEXT_BYTES_MAX]);
        drop(second);
        assert!(texts(None).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_ended_query_fails_at_its_next_check_and_others_run_on() {
        let env = Env::simulated(1, 0);
        let open = OpenQueries::default();
        let caller = Caller::internal(TenantId::default_tenant(), "test");
        let (one, other) = (context(&env, &caller.tenant), context(&env, &caller.tenant));
        let _entries = [open.add(&asked("one"), &caller, &one), open.add(&asked("other"), &caller, &other)];
        assert!(open.end(99).is_none());
        let ended = open.end(open.all(None)[0].id).unwrap();
        assert_eq!(&*ended.text, "one");
        assert!(one.check().unwrap_err().to_string().contains("ended by an operator"));
        assert!(other.check().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_list_is_bounded_and_a_query_beyond_it_still_runs() {
        let env = Env::simulated(1, 0);
        let open = OpenQueries::default();
        let caller = Caller::internal(TenantId::default_tenant(), "test");
        let context = context(&env, &caller.tenant);
        let mut entries: Vec<_> =
            (0..QUERIES_MAX).map(|_| open.add(&asked("x"), &caller, &context).unwrap()).collect();
        assert!(open.add(&asked("x"), &caller, &context).is_none());
        entries.pop();
        assert!(open.add(&asked("x"), &caller, &context).is_some());
    }
}
