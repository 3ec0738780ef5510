//! The alerts that wait for one Alertmanager: for each tenant one entry per alert, in the order of arrival.
//!
//! **Invariants.** At most [`QUEUED_MAX`] alerts and [`QUEUED_BYTES_MAX`] bytes; beyond that, the tenant with
//! the most loses its oldest. A newer state of an alert takes the place of the older one. A batch has alerts
//! of one tenant. Tenants take turns, and one whose request failed pauses while the others go on.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use sandur_model::{RuleShards, StreamId, TenantId};
use sandur_runtime::{Backoff, Env, Pauses};

/// The most alerts that wait for one Alertmanager.
pub const QUEUED_MAX: usize = 10_000;
/// The most bytes of alerts that wait for one Alertmanager.
pub const QUEUED_BYTES_MAX: usize = 32 << 20;
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// An alert that waits.
#[derive(Clone, Debug)]
pub struct Queued {
    /// The id of its labels.
    pub id: StreamId,
    /// The alert as JSON.
    pub text: Arc<str>,
    /// The shard of its group, if groups are divided among processes.
    pub shard: Option<u32>,
}

/// Alerts of one tenant that are sent together.
pub struct Batch {
    /// The tenant.
    pub tenant: TenantId,
    /// The alerts.
    pub alerts: Vec<Queued>,
}

/// What is to be done next.
pub enum Next {
    /// These alerts are sent.
    Send(Batch),
    /// All tenants with alerts pause for so long.
    Pause(Duration),
    /// No alert waits.
    Wait,
}

/// A queue.
#[derive(Default)]
pub struct Queue {
    tenants: BTreeMap<TenantId, Waiting>,
    /// The tenant whose turn was last.
    last: Option<TenantId>,
    alerts: usize,
    bytes: usize,
    next: i64,
}

/// The alerts of a tenant.
struct Waiting {
    entries: BTreeMap<i64, Queued>,
    places: HashMap<StreamId, i64>,
    /// The alerts that are being sent, without those that were withdrawn since, with their shards.
    taken: HashMap<StreamId, Option<u32>>,
    bytes: usize,
    pauses: Pauses,
    /// The end of the pause, by the monotonic clock.
    paused_until: Duration,
}

impl Default for Waiting {
    fn default() -> Self {
        let (entries, places, taken) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        Self { entries, places, taken, bytes: 0, pauses: PAUSES.pauses(), paused_until: Duration::ZERO }
    }
}

impl Queue {
    /// Removes the alerts of a tenant's groups in these shards, also those that are being sent.
    pub fn withdraw(&mut self, tenant: &TenantId, shards: RuleShards) {
        let Some(waiting) = self.tenants.get_mut(tenant) else { return };
        let is_of = |shard: Option<u32>| shard.is_some_and(|shard| shards.has(shard));
        waiting.taken.retain(|_, shard| !is_of(*shard));
        let withdrawn = waiting.entries.iter().filter(|(_, queued)| is_of(queued.shard));
        let places: Vec<i64> = withdrawn.map(|(place, _)| *place).collect();
        for place in places {
            self.remove(tenant, place);
        }
        self.forget(tenant);
    }

    /// The number of alerts.
    pub fn len(&self) -> usize {
        self.alerts
    }

    /// Adds an alert, or replaces its older state. Returns how many alerts were lost.
    pub fn push(&mut self, tenant: &TenantId, queued: Queued) -> u64 {
        let known = self.tenants.get(tenant).and_then(|waiting| waiting.places.get(&queued.id));
        let place = known.copied().unwrap_or(self.next);
        self.next += 1;
        self.insert(tenant, place, queued);
        self.shorten()
    }

    /// Takes the alerts of the next tenant that have waited longest.
    pub fn take(&mut self, now_monotonic: Duration, most: usize) -> Next {
        let has_some = |(_, waiting): &(&TenantId, &Waiting)| !waiting.entries.is_empty();
        let is_ready = |one: &(&TenantId, &Waiting)| has_some(one) && one.1.paused_until <= now_monotonic;
        let after = self.last.as_ref().map(|last| (Bound::Excluded(last), Bound::Unbounded));
        let next = after.and_then(|after| self.tenants.range::<TenantId, _>(after).find(is_ready));
        let Some((tenant, _)) = next.or_else(|| self.tenants.iter().find(is_ready)) else {
            let pauses = self.tenants.iter().filter(has_some).map(|(_, waiting)| waiting.paused_until);
            let earliest = pauses.min().map(|until| until.saturating_sub(now_monotonic));
            return earliest.map_or(Next::Wait, Next::Pause);
        };
        let tenant = tenant.clone();
        self.last = Some(tenant.clone());
        let mut alerts: Vec<Queued> = Vec::new();
        while alerts.len() < most
            && let Some(first) = self.pop(&tenant)
        {
            alerts.push(first);
        }
        if let Some(waiting) = self.tenants.get_mut(&tenant) {
            waiting.taken = alerts.iter().map(|queued| (queued.id, queued.shard)).collect();
        }
        Next::Send(Batch { tenant, alerts })
    }

    /// Notes that the alerts that were taken need not be sent again.
    pub fn done(&mut self, tenant: &TenantId) {
        if let Some(waiting) = self.tenants.get_mut(tenant) {
            waiting.taken.clear();
            waiting.pauses.reset();
        }
        self.forget(tenant);
    }

    /// Puts alerts that could not be sent back in front, except those of which a newer state has arrived.
    /// Their tenant pauses. Returns how many alerts were lost.
    pub fn give_back(&mut self, batch: Batch, env: &Env) -> u64 {
        let Batch { tenant, alerts } = batch;
        let Some(waiting) = self.tenants.get_mut(&tenant) else { return 0 };
        waiting.paused_until = env.monotonic() + waiting.pauses.after_failure_with_jitter(env);
        let taken = std::mem::take(&mut waiting.taken);
        let first = waiting.entries.keys().next().copied().unwrap_or(self.next);
        let start = first - alerts.len() as i64;
        for (place, queued) in (start..).zip(alerts) {
            let is_known = self.tenants.get(&tenant).is_some_and(|of| of.places.contains_key(&queued.id));
            if taken.contains_key(&queued.id) && !is_known {
                self.insert(&tenant, place, queued);
            }
        }
        self.forget(&tenant);
        self.shorten()
    }

    fn insert(&mut self, tenant: &TenantId, place: i64, queued: Queued) {
        self.remove(tenant, place);
        let waiting = self.tenants.entry(tenant.clone()).or_default();
        (self.alerts, self.bytes) = (self.alerts + 1, self.bytes + queued.text.len());
        waiting.bytes += queued.text.len();
        waiting.places.insert(queued.id, place);
        waiting.entries.insert(place, queued);
    }

    fn remove(&mut self, tenant: &TenantId, place: i64) -> Option<Queued> {
        let waiting = self.tenants.get_mut(tenant)?;
        let queued = waiting.entries.remove(&place)?;
        waiting.places.remove(&queued.id);
        waiting.bytes -= queued.text.len();
        (self.alerts, self.bytes) = (self.alerts - 1, self.bytes - queued.text.len());
        Some(queued)
    }

    fn pop(&mut self, tenant: &TenantId) -> Option<Queued> {
        let place = *self.tenants.get(tenant)?.entries.keys().next()?;
        self.remove(tenant, place)
    }

    /// Forgets a tenant of which no alert waits or is being sent.
    fn forget(&mut self, tenant: &TenantId) {
        if self.tenants.get(tenant).is_some_and(|of| of.entries.is_empty() && of.taken.is_empty()) {
            self.tenants.remove(tenant);
        }
    }

    fn shorten(&mut self) -> u64 {
        let mut lost = 0;
        while self.alerts > QUEUED_MAX || self.bytes > QUEUED_BYTES_MAX {
            let is_too_long = self.alerts > QUEUED_MAX;
            // Of tenants with equally many, the one whose alerts wait longest.
            let size = |waiting: &Waiting| {
                let size = if is_too_long { waiting.entries.len() } else { waiting.bytes };
                (size, waiting.entries.keys().next().map(|place| Reverse(*place)))
            };
            let largest = self.tenants.iter().max_by_key(|(_, waiting)| size(waiting));
            let Some(tenant) = largest.map(|(tenant, _)| tenant.clone()) else { break };
            if self.pop(&tenant).is_none() {
                break;
            }
            self.forget(&tenant);
            lost += 1;
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn tenant(name: &str) -> TenantId {
        TenantId::new(name).unwrap()
    }

    fn queued(id: u128, text: &str) -> Queued {
        Queued { id: StreamId(id), text: text.into(), shard: Some(id as u32 % 4) }
    }

    fn take(queue: &mut Queue, most: usize) -> Batch {
        match queue.take(NOW, most) {
            Next::Send(batch) => batch,
            Next::Pause(_) | Next::Wait => Batch { tenant: tenant("none"), alerts: Vec::new() },
        }
    }

    fn texts(batch: &Batch) -> Vec<&str> {
        batch.alerts.iter().map(|queued| &*queued.text).collect()
    }

    #[test]
    fn a_batch_has_alerts_of_one_tenant_and_tenants_take_turns() {
        let mut queue = Queue::default();
        for (name, id) in [("a", 1), ("a", 2), ("b", 1), ("a", 3), ("c", 1)] {
            queue.push(&tenant(name), queued(id, &format!("{name}{id}")));
        }
        assert_eq!(texts(&take(&mut queue, 2)), ["a1", "a2"]);
        queue.done(&tenant("a"));
        assert_eq!(texts(&take(&mut queue, 2)), ["b1"]);
        queue.done(&tenant("b"));
        queue.push(&tenant("b"), queued(2, "b2"));
        assert_eq!(texts(&take(&mut queue, 2)), ["c1"]);
        queue.done(&tenant("c"));
        assert_eq!(texts(&take(&mut queue, 2)), ["a3"]);
        queue.done(&tenant("a"));
        assert_eq!(texts(&take(&mut queue, 2)), ["b2"]);
        queue.done(&tenant("b"));
        assert!(matches!(queue.take(NOW, 2), Next::Wait) && queue.tenants.is_empty());
    }

    #[test]
    fn a_tenant_whose_request_failed_pauses_alone() {
        let (env, mut queue) = (Env::simulated(1, 0), Queue::default());
        queue.push(&tenant("a"), queued(1, "a1"));
        let batch = take(&mut queue, 9);
        assert_eq!(queue.give_back(batch, &env), 0);
        let now = env.monotonic();
        let Next::Pause(pause) = queue.take(now, 9) else { panic!() };
        assert!(pause > Duration::ZERO && pause <= Duration::from_millis(500), "{pause:?}");
        queue.push(&tenant("b"), queued(1, "b1"));
        let Next::Send(batch) = queue.take(now, 9) else { panic!() };
        assert_eq!(texts(&batch), ["b1"]);
        let Next::Send(batch) = queue.take(now + pause, 9) else { panic!() };
        assert_eq!(texts(&batch), ["a1"]);
    }

    #[test]
    fn a_newer_state_takes_the_place_of_the_older_one() {
        let (env, mut queue, a) = (Env::simulated(1, 0), Queue::default(), tenant("a"));
        for (id, text) in [(1, "a1"), (2, "b1"), (1, "a2"), (3, "c1")] {
            assert_eq!(queue.push(&a, queued(id, text)), 0);
        }
        let batch = take(&mut queue, 2);
        assert_eq!(queue.push(&a, queued(2, "b2")), 0);
        assert_eq!(queue.give_back(batch, &env), 0);
        assert_eq!(texts(&take(&mut queue, 9)), ["a2", "c1", "b2"]);
        assert_eq!((queue.len(), queue.bytes), (0, 0));
    }

    #[test]
    fn a_withdrawn_alert_is_not_sent_again() {
        let (env, mut queue, a) = (Env::simulated(1, 0), Queue::default(), tenant("a"));
        for id in 0..4 {
            queue.push(&a, queued(id, &format!("{id}")));
        }
        let batch = take(&mut queue, 2);
        queue.withdraw(&a, RuleShards::one(1).or(RuleShards::one(2)));
        assert_eq!(queue.give_back(batch, &env), 0);
        let batch = take(&mut queue, 9);
        assert_eq!(texts(&batch), ["0", "3"]);
        queue.push(&tenant("other"), queued(0, "x"));
        queue.push(&a, Queued { shard: None, ..queued(9, "y") });
        queue.withdraw(&a, RuleShards::ALL);
        assert_eq!((queue.give_back(batch, &env), queue.len(), queue.bytes), (0, 2, 2));
    }

    #[test]
    fn a_full_queue_loses_the_oldest_alerts() {
        let (env, mut queue, a) = (Env::simulated(1, 0), Queue::default(), tenant("a"));
        let lost: u64 = (0..QUEUED_MAX as u128 + 3).map(|id| queue.push(&a, queued(id, "x"))).sum();
        assert_eq!((lost, queue.len()), (3, QUEUED_MAX));
        let batch = take(&mut queue, 5);
        assert_eq!(batch.alerts[0].id, StreamId(3));
        let lost: u64 = (20_000..20_005).map(|id| queue.push(&a, queued(id, "x"))).sum();
        assert_eq!((lost, queue.give_back(batch, &env)), (0, 5));
        queue.push(&a, queued(30_000, &"x".repeat(QUEUED_BYTES_MAX)));
        assert_eq!(queue.len(), 1);
    }

    /// A tenant with many alerts pushed those of others out.
    #[test]
    fn a_full_queue_loses_alerts_of_the_tenant_with_the_most() {
        let mut queue = Queue::default();
        assert_eq!(queue.push(&tenant("few"), queued(1, "x")), 0);
        let lost: u64 = (0..QUEUED_MAX as u128).map(|id| queue.push(&tenant("many"), queued(id, "x"))).sum();
        assert_eq!((lost, queue.tenants[&tenant("few")].entries.len()), (1, 1));
        let lost = queue.push(&tenant("large"), queued(1, &"x".repeat(QUEUED_BYTES_MAX)));
        assert_eq!((lost, queue.tenants[&tenant("few")].entries.len()), (2, 1));
        assert!(!queue.tenants.contains_key(&tenant("large")));
    }
}
