//! The groups of alerts that one receiver is told about, and what it was told.
//!
//! A group has the alerts of one group of rules whose values of the labels of `group_by` are equal. It is due
//! `group_wait` after its first alert, and then every `group_interval`. When it is due, a notification is
//! sent if an alert fires that the receiver does not know, if one ended that it knows, or if the last
//! notification is older than `repeat_interval`. A group without alerts is forgotten.
//!
//! **Invariants.** At most [`ALERTS_MAX`] alerts and [`BYTES_MAX`] bytes; if there is no room, the tenant
//! with the most alerts loses one. What a receiver was told is noted when it has accepted a notification, so
//! that a notification that fails is made again from what holds then. An alert that ended is kept until its
//! rule forgets it, so that its end is told once. Tenants take turns.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use sandur_model::{Labels, RuleShards, StreamId, TenantId};
use sandur_runtime::{Backoff, Env, Pauses};

use super::grouping::Grouping;
use super::notification::{Notification, Told, content, id, repetition};
use super::origin::Origin;
use crate::data::Instant;

/// The most alerts of one receiver, with those that ended lately.
pub const ALERTS_MAX: usize = 20_000;
/// The most bytes of alerts of one receiver.
pub const BYTES_MAX: usize = 32 << 20;
/// The largest alert: one that is larger would push many others out.
pub const ALERT_BYTES_MAX: usize = 1 << 20;
/// An alert that began longer ago, and that this process did not know, may have been told by another process.
const FRESH: Duration = Duration::from_secs(5);
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// This group is due.
    Due(TenantId, Arc<str>),
    /// The next group is due after this time.
    Pause(Duration),
    /// There is no group.
    Wait,
}

/// What a receiver knows of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knows {
    Nothing,
    /// That it fires, if the process that evaluated the rule before told it.
    Perhaps,
    /// That it fires.
    Firing,
    /// That it ended.
    End,
}

/// An alert of a group.
struct Known {
    alert: Arc<Told>,
    knows: Knows,
    /// Whether its rule has forgotten it.
    is_gone: bool,
}

/// A notification that was tried.
struct Tried {
    content: u128,
    id: String,
}

/// A group.
struct Group {
    labels: Labels,
    shard: Option<u32>,
    alerts: BTreeMap<StreamId, Known>,
    /// When it is due, by the monotonic clock.
    due: Duration,
    pauses: Pauses,
    /// When the last notification was accepted.
    told_at: Option<Instant>,
    tried: Option<Tried>,
}

#[derive(Default)]
struct OfTenant {
    groups: BTreeMap<Arc<str>, Group>,
    due: BTreeSet<(Duration, Arc<str>)>,
    size: Size,
}

/// How much room alerts take.
#[derive(Clone, Copy, Default)]
struct Size {
    alerts: usize,
    bytes: usize,
}

impl Size {
    fn add(&mut self, alert: &Told) {
        (self.alerts, self.bytes) = (self.alerts + 1, self.bytes + alert.bytes());
    }

    fn remove(&mut self, alert: &Told) {
        (self.alerts, self.bytes) = (self.alerts - 1, self.bytes - alert.bytes());
    }
}

/// The groups of a receiver.
pub struct Groups {
    grouping: Arc<Grouping>,
    tenants: BTreeMap<TenantId, OfTenant>,
    /// The tenant whose turn was last.
    last: Option<TenantId>,
    size: Size,
}

/// What silences say about a group.
#[derive(Debug, Default)]
pub struct Silenced {
    /// The alerts that are silenced.
    pub alerts: HashSet<StreamId>,
    /// The alerts that the silences were compared with; `None`: all.
    pub looked_at: Option<HashSet<StreamId>>,
}

impl Silenced {
    /// Whether it is known that an alert is not silenced.
    fn is_audible(&self, id: StreamId) -> bool {
        !self.alerts.contains(&id) && self.looked_at.as_ref().is_none_or(|looked_at| looked_at.contains(&id))
    }
}

/// Why an alert is not in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// There is no room for it.
    Full,
    /// It is larger than [`ALERT_BYTES_MAX`].
    TooLarge,
}

impl Lost {
    /// The name in metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Full => "queue_full",
            Self::TooLarge => "too_large",
        }
    }
}

impl Groups {
    /// No groups.
    pub fn new(grouping: Arc<Grouping>) -> Self {
        Self { grouping, tenants: BTreeMap::new(), last: None, size: Size::default() }
    }

    /// The number of alerts.
    pub fn len(&self) -> usize {
        self.size.alerts
    }

    /// Adds an alert, or replaces its older state. Returns how many alerts were lost for it.
    pub fn push(
        &mut self,
        origin: Origin<'_>,
        alert: Arc<Told>,
        (now, now_monotonic): (Instant, Duration),
    ) -> Result<u64, Lost> {
        if alert.bytes() > ALERT_BYTES_MAX {
            return Err(Lost::TooLarge);
        }
        let labels = self.grouping.labels_of(&alert.labels);
        let key: Arc<str> = format!("{}{labels}", origin.key()).into();
        let before = self.remove(origin.tenant, &key, alert.id);
        let knows = match &before {
            // The process that evaluated the rule before may have told that it fires.
            None if !alert.is_firing() => Knows::Firing,
            None if now.since(alert.starts_at) > FRESH => Knows::Perhaps,
            None => Knows::Nothing,
            Some(Known { knows: Knows::End, alert: ended, .. }) => {
                if !alert.is_firing() && alert.starts_at == ended.starts_at {
                    Knows::End
                } else {
                    Knows::Nothing
                }
            }
            Some(known) => known.knows,
        };
        let mut lost = 0;
        while self.size.alerts >= ALERTS_MAX || self.size.bytes + alert.bytes() > BYTES_MAX {
            if !self.lose_one(origin.tenant, &alert) {
                self.forget_empty(origin.tenant, &key);
                return Err(Lost::Full);
            }
            lost += 1;
        }
        let due = now_monotonic + self.grouping.wait;
        let of_tenant = self.tenants.entry(origin.tenant.clone()).or_default();
        let group = of_tenant.groups.entry(Arc::clone(&key)).or_insert_with(|| {
            of_tenant.due.insert((due, key));
            let (alerts, pauses) = (BTreeMap::new(), PAUSES.pauses());
            Group { labels, shard: origin.shard, alerts, due, pauses, told_at: None, tried: None }
        });
        of_tenant.size.add(&alert);
        self.size.add(&alert);
        group.alerts.insert(alert.id, Known { alert, knows, is_gone: false });
        Ok(lost)
    }

    /// Removes an alert of the tenant with the most, if that one has more than this tenant would have with
    /// the alert.
    fn lose_one(&mut self, than: &TenantId, alert: &Told) -> bool {
        let is_too_many = self.size.alerts >= ALERTS_MAX;
        let of = |size: Size| if is_too_many { size.alerts } else { size.bytes };
        let own = self.tenants.get(than).map_or(0, |of_tenant| of(of_tenant.size));
        let with_it = own + if is_too_many { 1 } else { alert.bytes() };
        let largest = self.tenants.iter().max_by_key(|(_, of_tenant)| of(of_tenant.size));
        let Some((tenant, largest)) = largest.filter(|(_, of_tenant)| of(of_tenant.size) > with_it) else {
            return false;
        };
        let group = largest.groups.iter().max_by_key(|(_, group)| group.alerts.len());
        let last = group.and_then(|(key, group)| Some((Arc::clone(key), *group.alerts.keys().next_back()?)));
        let (tenant, Some((key, id))) = (tenant.clone(), last) else { return false };
        self.remove(&tenant, &key, id);
        self.forget_empty(&tenant, &key);
        true
    }

    fn group_mut(&mut self, tenant: &TenantId, key: &str) -> Option<&mut Group> {
        self.tenants.get_mut(tenant)?.groups.get_mut(key)
    }

    fn remove(&mut self, tenant: &TenantId, key: &str, id: StreamId) -> Option<Known> {
        let of_tenant = self.tenants.get_mut(tenant)?;
        let known = of_tenant.groups.get_mut(key)?.alerts.remove(&id)?;
        of_tenant.size.remove(&known.alert);
        self.size.remove(&known.alert);
        Some(known)
    }

    /// Forgets a group without alerts.
    fn forget_empty(&mut self, tenant: &TenantId, key: &str) {
        let Some(of_tenant) = self.tenants.get_mut(tenant) else { return };
        if let Some(group) = of_tenant.groups.get(key).filter(|group| group.alerts.is_empty()) {
            of_tenant.due.remove(&(group.due, Arc::from(key)));
            of_tenant.groups.remove(key);
        }
        if of_tenant.groups.is_empty() {
            self.tenants.remove(tenant);
        }
    }

    /// Ends the alerts of a group of rules that its rules do not have any more.
    pub fn keep(&mut self, origin: Origin<'_>, alive: &HashSet<StreamId>, now: Instant) {
        let prefix = origin.key();
        let Some(of_tenant) = self.tenants.get_mut(origin.tenant) else { return };
        let all = of_tenant.groups.range_mut::<str, _>((Bound::Included(&*prefix), Bound::Unbounded));
        let mut over: Vec<(Arc<str>, StreamId)> = Vec::new();
        for (key, group) in all.take_while(|(key, _)| key.starts_with(&prefix)) {
            for (id, known) in
                group.alerts.iter_mut().filter(|(_, known)| !alive.contains(&known.alert.of_rule))
            {
                known.is_gone = true;
                match known.knows {
                    Knows::Firing | Knows::Perhaps if known.alert.is_firing() => {
                        known.alert = Arc::new(Told { ends_at: Some(now), ..Told::clone(&known.alert) });
                    }
                    Knows::Firing | Knows::Perhaps => {}
                    Knows::Nothing | Knows::End => over.push((Arc::clone(key), *id)),
                }
            }
        }
        for (key, id) in over {
            self.remove(origin.tenant, &key, id);
            self.forget_empty(origin.tenant, &key);
        }
    }

    /// Removes the groups of a tenant in these shards.
    pub fn withdraw(&mut self, tenant: &TenantId, shards: RuleShards) {
        let Some(of_tenant) = self.tenants.get(tenant) else { return };
        let is_of = |group: &Group| group.shard.is_some_and(|shard| shards.has(shard));
        let withdrawn = of_tenant.groups.iter().filter(|(_, group)| is_of(group));
        let ids = |(key, group): (&Arc<str>, &Group)| {
            group.alerts.keys().map(|id| (Arc::clone(key), *id)).collect::<Vec<_>>()
        };
        for (key, id) in withdrawn.flat_map(ids).collect::<Vec<_>>() {
            self.remove(tenant, &key, id);
            self.forget_empty(tenant, &key);
        }
    }

    /// The group that is due: that of the next tenant that has one.
    pub fn next(&mut self, now_monotonic: Duration) -> Next {
        let is_due =
            |of_tenant: &OfTenant| of_tenant.due.first().is_some_and(|(due, _)| *due <= now_monotonic);
        let after = self.last.as_ref().map(|last| (Bound::Excluded(last), Bound::Unbounded));
        let next = after.and_then(|after| {
            self.tenants.range::<TenantId, _>(after).find(|(_, of_tenant)| is_due(of_tenant))
        });
        match next.or_else(|| self.tenants.iter().find(|(_, of_tenant)| is_due(of_tenant))) {
            Some((tenant, of_tenant)) => {
                let Some((_, key)) = of_tenant.due.first() else { return Next::Wait };
                let due = (tenant.clone(), Arc::clone(key));
                self.last = Some(due.0.clone());
                Next::Due(due.0, due.1)
            }
            None => {
                let earliest = self.tenants.values().filter_map(|of_tenant| of_tenant.due.first()).min();
                earliest.map_or(Next::Wait, |(due, _)| Next::Pause(due.saturating_sub(now_monotonic)))
            }
        }
    }

    /// The alerts of a group of which the receiver does not know the end.
    pub fn alerts(&self, tenant: &TenantId, key: &str) -> Vec<Arc<Told>> {
        let group = self.tenants.get(tenant).and_then(|of_tenant| of_tenant.groups.get(key));
        let live = group.into_iter().flat_map(|group| group.alerts.values());
        live.filter(|known| known.knows != Knows::End).map(|known| Arc::clone(&known.alert)).collect()
    }

    /// The notification about a group that is due, without the alerts that are silenced; `None` if there is
    /// nothing to tell. The group is due again after `group_interval`.
    pub fn notification(
        &mut self,
        (tenant, key): (&TenantId, &Arc<str>),
        silenced: &Silenced,
        (now, now_monotonic): (Instant, Duration),
    ) -> Option<Notification> {
        let repeat = self.grouping.repeat;
        self.set_due(tenant, key, now_monotonic + self.grouping.interval);
        self.forget_untold(tenant, key, &silenced.alerts);
        let group = self.group_mut(tenant, key)?;
        let audible = group.alerts.iter().filter(|(id, _)| silenced.is_audible(**id)).map(|(_, known)| known);
        let told: Vec<&Known> = audible.filter(|known| known.knows != Knows::End).collect();
        let is_news = |known: &&Known| match known.alert.is_firing() {
            true => matches!(known.knows, Knows::Nothing | Knows::Perhaps),
            false => matches!(known.knows, Knows::Firing | Knows::Perhaps),
        };
        let is_repetition = told.iter().any(|known| known.alert.is_firing())
            && group.told_at.is_some_and(|told_at| now.since(told_at) >= repeat);
        if !told.iter().any(is_news) && !is_repetition {
            return None;
        }
        let alerts: Vec<Arc<Told>> = told.iter().map(|known| Arc::clone(&known.alert)).collect();
        let content = content(tenant, key, &alerts);
        // An attempt that failed may have arrived, so another one has the same id.
        let id = match &group.tried {
            Some(tried) if tried.content == content => tried.id.clone(),
            _ => id(content, repetition(&alerts, now, repeat)),
        };
        group.tried = Some(Tried { content, id: id.clone() });
        Some(Notification::new((tenant.clone(), Arc::clone(key), group.labels.clone()), alerts, id))
    }

    /// Forgets alerts that began and ended without a notification. The ends of silenced alerts are not told,
    /// as in Alertmanager.
    fn forget_untold(&mut self, tenant: &TenantId, key: &str, silenced: &HashSet<StreamId>) {
        let Some(group) = self.group_mut(tenant, key) else { return };
        let mut over = Vec::new();
        for (id, known) in group.alerts.iter_mut().filter(|(_, known)| !known.alert.is_firing()) {
            if known.knows == Knows::Nothing || silenced.contains(id) {
                known.knows = Knows::End;
            }
            if known.is_gone && known.knows == Knows::End {
                over.push(*id);
            }
        }
        for id in over {
            self.remove(tenant, key, id);
        }
        self.forget_empty(tenant, key);
    }

    fn set_due(&mut self, tenant: &TenantId, key: &Arc<str>, due: Duration) {
        let Some(of_tenant) = self.tenants.get_mut(tenant) else { return };
        let Some(group) = of_tenant.groups.get_mut(key) else { return };
        of_tenant.due.remove(&(group.due, Arc::clone(key)));
        group.due = due;
        of_tenant.due.insert((due, Arc::clone(key)));
    }

    /// Notes that the receiver accepted a notification.
    pub fn accepted(&mut self, notification: &Notification, now: Instant) {
        let (tenant, key) = (&notification.tenant, &notification.group);
        let Some(group) = self.group_mut(tenant, key) else { return };
        group.pauses.reset();
        (group.told_at, group.tried) = (Some(now), None);
        let told: BTreeMap<StreamId, &Arc<Told>> =
            notification.about.iter().map(|alert| (alert.id, alert)).collect();
        let mut over = Vec::new();
        for (id, known) in &mut group.alerts {
            known.knows = match (known.knows, told.get(id)) {
                (Knows::End, _) => Knows::End,
                (_, Some(alert)) if alert.is_firing() => Knows::Firing,
                // It may have begun anew in the meantime.
                (_, Some(alert)) if alert.starts_at == known.alert.starts_at => Knows::End,
                (_, Some(_)) => Knows::Nothing,
                // It is silenced, or arrived in the meantime. As in Alertmanager, a silenced alert is told
                // again after the silence if others were told without it.
                (Knows::Firing, None) if known.alert.is_firing() => Knows::Nothing,
                (knows, None) => knows,
            };
            if known.is_gone && known.knows == Knows::End {
                over.push(*id);
            }
        }
        for id in over {
            self.remove(tenant, key, id);
        }
        self.forget_empty(tenant, key);
    }

    /// Notes that a notification was not accepted. It is tried again after a pause, at the latest when the
    /// group is due.
    pub fn failed(&mut self, notification: &Notification, env: &Env) {
        let (tenant, key) = (&notification.tenant, &notification.group);
        let Some(group) = self.group_mut(tenant, key) else { return };
        let due = env.monotonic() + group.pauses.after_failure_with_jitter(env);
        let due = due.min(group.due);
        self.set_due(tenant, key, due);
    }
}
