//! Keeps the last slow queries in memory, for operators and tenants that look for expensive queries.
//!
//! **Invariants.** At most [`QUERIES_MAX`] queries are kept, in the bytes of the given budget. When either is
//! exhausted, the oldest query of the tenant with the most bytes is removed. So a tenant that floods the list
//! removes queries of others only until all tenants have equal parts. A tenant sees only queries over tenants
//! that it names itself.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::TenantId;

use super::queued_lines::Ended;
use crate::cost::Cost;

/// Maximum number of queries that are kept.
pub const QUERIES_MAX: usize = 1_000;
/// Maximum bytes of the text of a query.
pub const TEXT_BYTES_MAX: usize = 2_048;
/// Maximum bytes of each other text: user agent, trace, label, failure, and all tags together.
const OTHER_BYTES_MAX: usize = 256;
/// Bytes of a query in addition to its texts: this structure, the fragmentation of its texts, and its part of
/// the tables.
const QUERY_BYTES: usize = size_of::<SlowQuery>() + 256;

/// A query that took at least `query.slow_threshold`.
#[derive(Clone, Debug)]
pub struct SlowQuery {
    /// Whose data it read; several tenants are separated by `|`.
    pub tenant: TenantId,
    /// When it ended, nanoseconds since the epoch.
    pub ended_ns: i64,
    /// The query, or the selectors of a series request; at most [`TEXT_BYTES_MAX`].
    pub text: Box<str>,
    /// Hash of the complete text, equal to Loki's.
    pub hash: u32,
    /// `metric`, `filter`, `labels`, .. as in the log.
    pub query_type: &'static str,
    /// `logs` or `metrics`.
    pub signal: &'static str,
    /// The label of a request for values.
    pub label: Box<str>,
    /// Start of its range, nanoseconds since the epoch.
    pub start_ns: i64,
    /// End of its range, nanoseconds since the epoch.
    pub end_ns: i64,
    /// Its step; 0 for an instant.
    pub step_ns: i64,
    /// HTTP status of the answer.
    pub status: u16,
    /// Why there was no answer, or why it ended early.
    pub failure: Box<str>,
    /// Its cost.
    pub cost: Cost,
    /// Bytes of the answer.
    pub result_bytes: u64,
    /// The user agent of the client.
    pub user_agent: Box<str>,
    /// Tags by which the client described itself, `source=grafana,feature=beta`.
    pub tags: Box<str>,
    /// The id of its trace.
    pub trace: Box<str>,
}

impl SlowQuery {
    fn of(ended: &Ended) -> Self {
        let Ended { asked, caller, cost, outcome, seen, .. } = ended;
        let short = |text: &str| cut(text, OTHER_BYTES_MAX);
        let tags: Vec<String> = caller.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Self {
            tenant: caller.tenant.clone(),
            ended_ns: seen.now_ns,
            text: cut(&asked.text, TEXT_BYTES_MAX),
            hash: asked.hash,
            query_type: asked.query_type,
            signal: asked.signal,
            label: short(&asked.label),
            start_ns: asked.times.start_ns,
            end_ns: asked.times.end_ns,
            step_ns: asked.step_ns,
            status: outcome.status,
            failure: short(&outcome.failure),
            cost: cost.clone(),
            result_bytes: outcome.result_bytes,
            user_agent: short(&caller.user_agent),
            tags: short(&tags.join(",")),
            trace: short(caller.trace.as_deref().unwrap_or("")),
        }
    }

    /// Bytes of its texts.
    pub fn text_bytes(&self) -> usize {
        let texts = [&self.text, &self.label, &self.failure, &self.user_agent, &self.tags, &self.trace];
        self.tenant.as_str().len() + texts.iter().map(|text| text.len()).sum::<usize>()
    }

    fn bytes(&self) -> u64 {
        (QUERY_BYTES + self.text_bytes()) as u64
    }
}

fn cut(text: &str, bytes_max: usize) -> Box<str> {
    text[..text.floor_char_boundary(bytes_max)].into()
}

/// The last slow queries.
pub struct SlowQueries(Mutex<Kept>);

struct Kept {
    memory: Reservation,
    /// Number of queries that were added since the start; it orders them.
    added: u64,
    count: usize,
    of_tenants: HashMap<TenantId, OfTenant>,
}

#[derive(Default)]
struct OfTenant {
    bytes: u64,
    /// Oldest first, with their numbers.
    queries: VecDeque<(u64, Arc<SlowQuery>)>,
}

impl SlowQueries {
    /// An empty list that keeps queries in this memory.
    pub fn new(memory: &MemoryBudget) -> Self {
        Self(Mutex::new(Kept { memory: memory.empty(), added: 0, count: 0, of_tenants: HashMap::new() }))
    }

    pub(super) fn add(&self, ended: &Ended) {
        self.kept().add(SlowQuery::of(ended));
    }

    /// The newest queries first, at most `limit`. With tenants, only queries that read no data of other
    /// tenants.
    pub fn newest(&self, tenants: Option<&TenantId>, limit: usize) -> Vec<Arc<SlowQuery>> {
        let named: Option<HashSet<TenantId>> = tenants.map(|tenants| tenants.each().collect());
        let kept = self.kept();
        let may_see = |tenant: &TenantId| {
            named.as_ref().is_none_or(|named| tenant.each().all(|each| named.contains(&each)))
        };
        let visible = kept.of_tenants.iter().filter(|(tenant, _)| may_see(tenant));
        let mut found: Vec<_> = visible.flat_map(|(_, of)| &of.queries).collect();
        found.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        found.into_iter().take(limit).map(|(_, query)| Arc::clone(query)).collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn add(&mut self, query: SlowQuery) {
        let bytes = query.bytes();
        while self.count >= QUERIES_MAX || self.memory.grow(bytes).is_err() {
            if !self.remove_one() {
                return;
            }
        }
        self.count += 1;
        self.added += 1;
        let of = self.of_tenants.entry(query.tenant.clone()).or_default();
        of.bytes += bytes;
        of.queries.push_back((self.added, Arc::new(query)));
    }

    /// Removes the oldest query of the tenant with the most bytes. Returns whether there was one.
    fn remove_one(&mut self) -> bool {
        let largest = self.of_tenants.iter().max_by_key(|(_, of)| of.bytes).map(|(tenant, _)| tenant.clone());
        let Some(tenant) = largest else { return false };
        let Some(of) = self.of_tenants.get_mut(&tenant) else { return false };
        let freed = of.queries.pop_front().map_or(0, |(_, oldest)| oldest.bytes());
        of.bytes -= freed;
        if of.queries.is_empty() {
            self.of_tenants.remove(&tenant);
        }
        self.memory.shrink(freed);
        self.count -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_base::units::MIB;
    use sandur_promql::Times as MetricTimes;

    use super::super::asked::Asked;
    use super::super::line::Seen;
    use super::super::outcome::Outcome;
    use super::super::queued_lines::Log;
    use super::*;
    use crate::caller::Caller;

    fn tenant(name: &str) -> TenantId {
        let ids = name.split('|').map(|id| TenantId::new(id).unwrap());
        TenantId::several(ids).unwrap()
    }

    fn slow(name: &str, text: &str) -> Ended {
        let times = MetricTimes { start: 0, end: 1_000, step: 1_000 };
        let internal = Caller::internal(tenant(name), "test");
        let tags = vec![("source".to_owned(), "x".repeat(500))];
        Ended {
            asked: Asked::promql(text, times, None),
            caller: Caller { tags, user_agent: "é".repeat(500), ..internal },
            cost: Cost { execution: Duration::from_secs(5), ..Cost::default() },
            outcome: Outcome::answered(7),
            seen: Seen { now_ns: 1, slow: true, left_out: 0 },
            log: Log::Stored,
        }
    }

    fn texts(list: &SlowQueries, of: Option<&TenantId>) -> Vec<String> {
        list.newest(of, usize::MAX).iter().map(|query| query.text.to_string()).collect()
    }

    #[test]
    fn long_queries_stay_within_their_memory() {
        let memory = MemoryBudget::root("slow queries", MIB);
        let list = SlowQueries::new(&memory);
        for n in 0..1_000 {
            list.add(&slow("a", &format!("{n} {}", "y".repeat(64 << 10))));
            assert!(memory.used() <= MIB);
        }
        let kept = list.newest(None, usize::MAX);
        assert!((200..QUERIES_MAX).contains(&kept.len()), "{}", kept.len());
        assert!(kept[0].text.starts_with("999 ") && kept[0].text.len() == TEXT_BYTES_MAX);
        assert!(kept.iter().all(|query| query.text_bytes() <= TEXT_BYTES_MAX + 5 * OTHER_BYTES_MAX + 150));
        drop((kept, list));
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_tenant_that_floods_the_list_keeps_only_its_part_of_it() {
        let list = SlowQueries::new(&MemoryBudget::root("slow queries", 64 * MIB));
        (0..400).for_each(|n| list.add(&slow("quiet", &format!("quiet {n:05}"))));
        (0..2_000).for_each(|n| list.add(&slow("loud", &format!("loud- {n:05}"))));
        assert_eq!(texts(&list, Some(&tenant("quiet"))).len(), 400, "less than an equal part: all are kept");
        let loud = texts(&list, Some(&tenant("loud")));
        assert_eq!((loud.len(), loud[0].as_str()), (600, "loud- 01999"));
        // A tenant that was alone had more than its part before the other one came.
        (0..2_000).for_each(|n| list.add(&slow("quiet", &format!("quiet {n:05}"))));
        assert!((490..=510).contains(&texts(&list, Some(&tenant("loud"))).len()));
    }

    #[test]
    fn invented_tenants_stay_within_the_bound() {
        let list = SlowQueries::new(&MemoryBudget::root("slow queries", 64 * MIB));
        (0..1_500).for_each(|n| list.add(&slow(&format!("t{n}"), "up")));
        assert_eq!(texts(&list, None).len(), QUERIES_MAX);
        assert_eq!(list.kept().of_tenants.len(), QUERIES_MAX, "tenants without queries are removed");
    }

    #[test]
    fn a_tenant_sees_only_queries_over_tenants_that_it_names() {
        let list = SlowQueries::new(&MemoryBudget::root("slow queries", MIB));
        for (name, text) in [("a", "of a"), ("b", "of b"), ("a|b", "of both"), ("a", "of a again")] {
            list.add(&slow(name, text));
        }
        assert_eq!(texts(&list, Some(&tenant("a"))), ["of a again", "of a"]);
        assert_eq!(texts(&list, Some(&tenant("b"))), ["of b"]);
        assert_eq!(texts(&list, Some(&tenant("c"))), [""; 0]);
        assert_eq!(texts(&list, Some(&tenant("b|a|c"))), ["of a again", "of both", "of b", "of a"]);
        assert_eq!(texts(&list, None), ["of a again", "of both", "of b", "of a"]);
        assert_eq!(list.newest(None, 1)[0].text.as_ref(), "of a again");
    }

    #[test]
    fn a_query_that_does_not_fit_at_all_is_not_kept() {
        let list = SlowQueries::new(&MemoryBudget::root("slow queries", 100));
        list.add(&slow("a", "up"));
        assert!(texts(&list, None).is_empty());
    }
}
