//! The alerts that wait for one Alertmanager: one entry per alert, in the order of arrival.
//!
//! **Invariants.** At most [`QUEUED_MAX`] alerts and [`QUEUED_BYTES_MAX`] bytes. A newer state of an alert
//! takes the place of the older one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use sandur_model::{StreamId, TenantId};

/// The most alerts that wait for one Alertmanager.
pub const QUEUED_MAX: usize = 10_000;
/// The most bytes of alerts that wait for one Alertmanager.
pub const QUEUED_BYTES_MAX: usize = 32 << 20;
/// An alert as JSON.
pub type Entry = Arc<str>;
/// Identifies an alert: its tenant, and the id of its labels.
pub type AlertKey = (TenantId, StreamId);

/// A queue.
#[derive(Default)]
pub struct Queue {
    entries: BTreeMap<i64, (AlertKey, Entry)>,
    places: HashMap<AlertKey, i64>,
    /// The alerts that were taken last, without those that were withdrawn since.
    taken: HashSet<AlertKey>,
    bytes: usize,
    next: i64,
}

impl Queue {
    /// Removes an alert, also one that is being sent.
    pub fn withdraw(&mut self, id: &AlertKey) {
        self.taken.remove(id);
        if let Some(place) = self.places.remove(id)
            && let Some((_, entry)) = self.entries.remove(&place)
        {
            self.bytes -= entry.len();
        }
    }

    /// Removes all alerts of a tenant, also those that are being sent.
    pub fn clear(&mut self, tenant: &TenantId) {
        let all = self.places.keys().chain(&self.taken);
        let own: Vec<AlertKey> = all.filter(|(of, _)| of == tenant).cloned().collect();
        own.iter().for_each(|id| self.withdraw(id));
    }

    /// The number of alerts.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an alert, or replaces its older state. Returns how many alerts were lost.
    pub fn push(&mut self, id: AlertKey, entry: Entry) -> u64 {
        let place = self.places.get(&id).copied().unwrap_or(self.next);
        self.next += 1;
        self.insert(place, id, entry);
        self.shorten()
    }

    /// Takes the alerts that have waited longest, as long as they belong to one tenant.
    pub fn take(&mut self, most: usize) -> Vec<(AlertKey, Entry)> {
        let mut taken: Vec<(AlertKey, Entry)> = Vec::new();
        while taken.len() < most
            && let Some((_, ((next, _), _))) = self.entries.first_key_value()
            && taken.first().is_none_or(|((tenant, _), _)| tenant == next)
            && let Some(first) = self.pop()
        {
            taken.push(first);
        }
        self.taken = taken.iter().map(|(id, _)| id.clone()).collect();
        taken
    }

    /// Puts alerts back in front, except those of which a newer state has arrived. Returns how many alerts
    /// were lost.
    pub fn give_back(&mut self, batch: Vec<(AlertKey, Entry)>) -> u64 {
        let first = self.entries.keys().next().copied().unwrap_or(self.next);
        let start = first - batch.len() as i64;
        for (place, (id, entry)) in (start..).zip(batch) {
            if self.taken.contains(&id) && !self.places.contains_key(&id) {
                self.insert(place, id, entry);
            }
        }
        self.shorten()
    }

    fn insert(&mut self, place: i64, id: AlertKey, entry: Entry) {
        self.bytes += entry.len();
        self.places.insert(id.clone(), place);
        if let Some((_, older)) = self.entries.insert(place, (id, entry)) {
            self.bytes -= older.len();
        }
    }

    fn pop(&mut self) -> Option<(AlertKey, Entry)> {
        let (_, (id, entry)) = self.entries.pop_first()?;
        self.places.remove(&id);
        self.bytes -= entry.len();
        Some((id, entry))
    }

    fn shorten(&mut self) -> u64 {
        let mut lost = 0;
        while self.entries.len() > QUEUED_MAX || self.bytes > QUEUED_BYTES_MAX {
            if self.pop().is_none() {
                break;
            }
            lost += 1;
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(taken: Vec<(AlertKey, Entry)>) -> Vec<String> {
        taken.into_iter().map(|(_, entry)| entry.to_string()).collect()
    }

    fn key(id: u128) -> AlertKey {
        (TenantId::default_tenant(), StreamId(id))
    }

    #[test]
    fn a_batch_has_alerts_of_one_tenant() {
        let mut queue = Queue::default();
        for (tenant, id) in [("a", 1), ("a", 2), ("b", 1), ("a", 3)] {
            queue.push(
                (TenantId::new(tenant).unwrap(), StreamId(id)),
                format!("{tenant}{id}").as_str().into(),
            );
        }
        assert_eq!(texts(queue.take(9)), ["a1", "a2"]);
        assert_eq!(texts(queue.take(9)), ["b1"]);
        assert_eq!(texts(queue.take(9)), ["a3"]);
    }

    #[test]
    fn a_newer_state_takes_the_place_of_the_older_one() {
        let mut queue = Queue::default();
        for (id, text) in [(1, "a1"), (2, "b1"), (1, "a2"), (3, "c1")] {
            assert_eq!(queue.push(key(id), text.into()), 0);
        }
        let batch = queue.take(2);
        assert_eq!(queue.push(key(2), "b2".into()), 0);
        assert_eq!(queue.give_back(batch), 0);
        assert_eq!(texts(queue.take(9)), ["a2", "c1", "b2"]);
        assert_eq!((queue.len(), queue.bytes), (0, 0));
    }

    #[test]
    fn a_withdrawn_alert_is_not_sent_again() {
        let mut queue = Queue::default();
        for id in 0..4 {
            queue.push(key(id), format!("{id}").into());
        }
        let batch = queue.take(2);
        queue.withdraw(&key(1));
        queue.withdraw(&key(2));
        assert_eq!(queue.give_back(batch), 0);
        let batch = queue.take(9);
        assert_eq!(texts(batch.clone()), ["0", "3"]);
        queue.push((TenantId::new("other").unwrap(), StreamId(0)), "x".into());
        queue.clear(&TenantId::default_tenant());
        assert_eq!((queue.give_back(batch), queue.len(), queue.bytes), (0, 1, 1));
    }

    #[test]
    fn a_full_queue_loses_the_oldest_alerts() {
        let mut queue = Queue::default();
        let lost: u64 = (0..QUEUED_MAX as u128 + 3).map(|id| queue.push(key(id), "x".into())).sum();
        assert_eq!((lost, queue.len()), (3, QUEUED_MAX));
        let batch = queue.take(5);
        assert_eq!(batch[0].0, key(3));
        let lost: u64 = (20_000..20_005).map(|id| queue.push(key(id), "x".into())).sum();
        assert_eq!((lost, queue.give_back(batch)), (0, 5));
        let large: Entry = "x".repeat(QUEUED_BYTES_MAX).into();
        queue.push(key(30_000), large);
        assert_eq!(queue.len(), 1);
    }
}
