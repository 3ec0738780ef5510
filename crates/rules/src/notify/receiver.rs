//! A receiver: a webhook or a mailbox that is told about groups of alerts, and the task that tells it.
//!
//! **Invariants.** One notification is sent at a time. A receiver that is slow or dead delays no other one,
//! and no evaluation.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use sandur_model::{RuleShards, StreamId, TenantId};
use sandur_runtime::{Env, Task};
use tokio::sync::Notify;

use super::grouping::Grouping;
use super::groups::{Groups, Next, Silenced};
use super::health::{Health, host_of, lock};
use super::mail::{self, Mail};
use super::notification::{Notification, Told};
use super::origin::Origin;
use super::post::{Message, NotSent, Post, send};
use super::webhook;
use crate::data::Instant;
use crate::external::External;
use crate::metrics::RuleMetrics;
use crate::silence::{Mute, STEPS_MAX, Steps};

/// Where notifications about groups of alerts are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A URL, which may contain secrets.
    Webhook(String),
    /// The address of a mailbox.
    Mail(String),
}

impl Address {
    /// A name without secrets.
    fn name(&self) -> String {
        match self {
            Self::Webhook(url) => host_of(url),
            Self::Mail(address) => address.clone(),
        }
    }

    /// The kind, as notifications name their receiver.
    fn kind(&self) -> &'static str {
        match self {
            Self::Webhook(_) => webhook::NAME,
            Self::Mail(_) => mail::NAME,
        }
    }
}

/// A receiver as it is shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverShown {
    /// `webhook` or `email`.
    pub kind: &'static str,
    /// The scheme and host of a URL, or the address of a mailbox.
    pub name: String,
    /// Alerts of its groups.
    pub alerts: usize,
    /// Why the last notification failed; `None` if it succeeded.
    pub last_error: Option<String>,
}

/// A receiver and its task, which ends when this is dropped.
pub struct Receiver {
    state: Arc<State>,
    _task: Task<()>,
}

struct State {
    address: Address,
    groups: Mutex<Groups>,
    arrived: Notify,
    health: Health,
    metrics: RuleMetrics,
    /// How many of its alerts the gauge has.
    counted: Mutex<i64>,
}

/// What the receivers of a server have in common.
#[derive(Clone)]
pub struct Means {
    /// Clock and tasks.
    pub env: Env,
    /// Sends notifications.
    pub post: Arc<dyn Post>,
    /// Names this server.
    pub external: Arc<External>,
    /// Knows the silences; `None`: there are none.
    pub silences: Option<Arc<dyn Mute>>,
    /// Counters.
    pub metrics: RuleMetrics,
}

impl Receiver {
    /// Starts to tell a receiver.
    pub fn start(means: Means, address: Address, grouping: Arc<Grouping>) -> Self {
        let state = Arc::new(State {
            health: Health::of(address.name()),
            address,
            groups: Mutex::new(Groups::new(grouping)),
            arrived: Notify::new(),
            metrics: means.metrics.clone(),
            counted: Mutex::default(),
        });
        let teller = Teller { means: means.clone(), state: Arc::clone(&state) };
        Self { state, _task: means.env.spawn("notifications of groups", teller.run()) }
    }

    /// Adds an alert to its group.
    pub fn push(&self, env: &Env, origin: Origin<'_>, alert: &Arc<Told>) {
        let times = (Instant::of_ns(env.now_ns()), env.monotonic());
        let pushed = lock(&self.state.groups).push(origin, Arc::clone(alert), times);
        match pushed {
            Ok(lost) => self.state.metrics.lose("queue_full", lost),
            Err(lost) => self.state.metrics.lose(lost.reason(), 1),
        }
    }

    /// Ends the alerts of a group of rules that its rules do not have any more.
    pub fn keep(&self, origin: Origin<'_>, alive: &HashSet<StreamId>, now: Instant) {
        lock(&self.state.groups).keep(origin, alive, now);
        self.state.count();
    }

    /// Removes the groups of a tenant in these shards.
    pub fn withdraw(&self, tenant: &TenantId, shards: RuleShards) {
        lock(&self.state.groups).withdraw(tenant, shards);
        self.state.count();
    }

    /// Looks for groups that are due.
    pub fn wake(&self) {
        self.state.count();
        self.state.arrived.notify_one();
    }

    /// The state for people.
    pub fn shown(&self) -> ReceiverShown {
        let State { address, health, groups, .. } = &*self.state;
        ReceiverShown {
            kind: address.kind(),
            name: health.name().to_owned(),
            alerts: lock(groups).len(),
            last_error: health.last_error(),
        }
    }
}

impl State {
    /// Corrects the gauge of alerts by what changed here.
    fn count(&self) {
        let alerts = lock(&self.groups).len() as i64;
        let mut counted = lock(&self.counted);
        self.metrics.grouped.inc_by(alerts - *counted);
        *counted = alerts;
    }
}

/// Tells a receiver about groups that are due, one after the other.
struct Teller {
    means: Means,
    state: Arc<State>,
}

impl Teller {
    async fn run(self) {
        let (env, state) = (&self.means.env, &*self.state);
        loop {
            let next = lock(&state.groups).next(env.monotonic());
            match next {
                Next::Due(tenant, group) => self.tell(&tenant, &group).await,
                Next::Wait => state.arrived.notified().await,
                Next::Pause(pause) => {
                    env.timeout(pause, state.arrived.notified()).await;
                }
            }
        }
    }

    /// Sends the notification about a group, if there is something to tell.
    async fn tell(&self, tenant: &TenantId, group: &Arc<str>) {
        let (env, state) = (&self.means.env, &*self.state);
        let silenced = self.silenced(tenant, group).await;
        let times = (Instant::of_ns(env.now_ns()), env.monotonic());
        let notification = lock(&state.groups).notification((tenant, group), &silenced, times);
        state.count();
        let Some(notification) = notification else { return };
        match self.send(&notification).await {
            Ok(()) => {
                state.metrics.notified.inc_by(notification.about.len() as u64);
                state.health.note(None);
                lock(&state.groups).accepted(&notification, Instant::of_ns(env.now_ns()));
                state.count();
            }
            Err(error) => {
                state.metrics.notification_failures.inc();
                state.health.note(Some(error.reason().to_owned()));
                // What was refused is tried again when the group is due: it may have changed by then.
                if matches!(error, NotSent::Failed(_)) {
                    lock(&state.groups).failed(&notification, env);
                }
            }
        }
    }

    /// The alerts of a group that are silenced now. Many regular expressions over many alerts take long, so
    /// that this happens off the I/O threads. What arrives meanwhile waits for the next turn of the group.
    async fn silenced(&self, tenant: &TenantId, group: &Arc<str>) -> Silenced {
        let silences = self.means.silences.as_ref().map(|of| of.silences(tenant)).unwrap_or_default();
        let now = Instant::of_ns(self.means.env.now_ns());
        if !silences.is_any_active(now) {
            return Silenced::default();
        }
        let alerts = lock(&self.state.groups).alerts(tenant, group);
        let looked_at = alerts.iter().map(|alert| alert.id).collect();
        let job = move || {
            let mut steps = Steps::default();
            let mut is_silenced = |alert: &Told| silences.is_silenced(&alert.labels, now, &mut steps);
            let silenced = alerts.iter().filter(|alert| is_silenced(alert)).map(|alert| alert.id).collect();
            (silenced, steps.are_over())
        };
        let (silenced, are_steps_over) = self.means.env.run_blocking(job).await;
        if are_steps_over {
            let (tenant, most) = (tenant.as_str(), STEPS_MAX);
            tracing::warn!(
                tenant,
                most,
                "silences need too many steps: some alerts are told though silenced"
            );
        }
        Silenced { alerts: silenced, looked_at: Some(looked_at) }
    }

    async fn send(&self, notification: &Notification) -> Result<(), NotSent> {
        let Means { env, post, external, .. } = &self.means;
        let message = match &self.state.address {
            Address::Webhook(url) => Message::Webhook {
                url,
                body: webhook::body(notification, &external.url),
                key: &notification.id,
            },
            Address::Mail(to) => Message::Mail { to, mail: Mail::new(notification) },
        };
        send(env, &**post, message, &notification.tenant).await
    }
}
