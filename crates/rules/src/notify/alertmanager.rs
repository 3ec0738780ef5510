//! One Alertmanager: its queue, and the task that sends what waits there.
//!
//! **Invariant.** A request that fails is repeated with back-off until the Alertmanager accepts it or refuses
//! it for good.

use std::sync::{Arc, Mutex};

use sandur_model::{RuleShards, TenantId};
use sandur_runtime::{Env, Task};
use sandur_targets::{LabelSet, Relabel, relabel};
use tokio::sync::Notify;

use super::body;
use super::health::{Health, lock, without_credentials};
use super::origin::Origin;
use super::post::{Message, NotSent, Post, send};
use super::queue::{Batch, Next, Queue, Queued};
use crate::alert::Alert;
use crate::metrics::RuleMetrics;

/// The most alerts of a request.
pub const BATCH: usize = 256;

/// An Alertmanager as it is shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertmanagerShown {
    /// The URL of its API, without credentials.
    pub url: String,
    /// Alerts that wait for it.
    pub queued: usize,
    /// Why the last request failed; `None` if it succeeded.
    pub last_error: Option<String>,
}

/// An Alertmanager and its task, which ends when this is dropped.
pub struct Running {
    /// The Alertmanager.
    pub target: Arc<Target>,
    _task: Task<()>,
}

/// An Alertmanager.
pub struct Target {
    /// The URL of its API.
    pub url: String,
    relabel: Mutex<Vec<Relabel>>,
    queue: Mutex<Queue>,
    arrived: Notify,
    health: Health,
    metrics: RuleMetrics,
    /// How many of its alerts the gauge of waiting alerts has.
    counted: Mutex<i64>,
}

impl Running {
    /// Starts to send to the API with this URL.
    pub fn start(env: &Env, url: String, post: Arc<dyn Post>, metrics: RuleMetrics) -> Self {
        let health = Health::of(without_credentials(&url));
        let target = Arc::new(Target {
            url,
            relabel: Mutex::default(),
            queue: Mutex::default(),
            arrived: Notify::new(),
            health,
            metrics,
            counted: Mutex::default(),
        });
        let sender = Sender { env: env.clone(), target: Arc::clone(&target), post };
        Self { target, _task: env.spawn("notifications", sender.run()) }
    }
}

impl Target {
    /// Sets the rules that change labels of alerts for this Alertmanager, or drop alerts.
    pub fn set_relabel(&self, rules: Vec<Relabel>) {
        *lock(&self.relabel) = rules;
    }

    /// Queues an alert with these labels, unless a rule drops it.
    pub fn push(&self, origin: Origin<'_>, alert: &Alert, labels: &LabelSet, link: &str) {
        let rules = lock(&self.relabel).clone();
        let (id, text) = if rules.is_empty() {
            body::entry(alert, labels, link)
        } else {
            let mut labels = labels.clone();
            if !relabel(&rules, &mut labels) {
                return;
            }
            body::entry(alert, &labels, link)
        };
        let lost = lock(&self.queue).push(origin.tenant, Queued { id, text, shard: origin.shard });
        self.metrics.lose("queue_full", lost);
    }

    /// Sends what was queued.
    pub fn wake(&self) {
        self.count();
        self.arrived.notify_one();
    }

    /// Removes alerts of a tenant's groups in these shards.
    pub fn withdraw(&self, tenant: &TenantId, shards: RuleShards) {
        lock(&self.queue).withdraw(tenant, shards);
        self.count();
    }

    /// How many alerts wait.
    pub fn queued(&self) -> usize {
        lock(&self.queue).len()
    }

    /// The state for people.
    pub fn shown(&self) -> AlertmanagerShown {
        let (url, last_error) = (self.health.name().to_owned(), self.health.last_error());
        AlertmanagerShown { url, queued: self.queued(), last_error }
    }

    /// Corrects the gauge of waiting alerts by what changed here.
    fn count(&self) {
        let waiting = self.queued() as i64;
        let mut counted = lock(&self.counted);
        self.metrics.queued.inc_by(waiting - *counted);
        *counted = waiting;
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.metrics.queued.dec_by(*lock(&self.counted));
    }
}

/// Sends what is queued for an Alertmanager, one request after the other.
struct Sender {
    env: Env,
    target: Arc<Target>,
    post: Arc<dyn Post>,
}

impl Sender {
    async fn run(self) {
        let target = &self.target;
        loop {
            let next = lock(&target.queue).take(self.env.monotonic(), BATCH);
            match next {
                Next::Send(batch) => self.send(target, batch).await,
                Next::Wait => target.arrived.notified().await,
                Next::Pause(pause) => {
                    // Another tenant may have an alert now.
                    self.env.timeout(pause, target.arrived.notified()).await;
                }
            }
            target.count();
        }
    }

    /// Sends a batch. If that fails, it is in the queue again.
    async fn send(&self, target: &Target, batch: Batch) {
        let (body, sent) = (body::of_batch(&batch.alerts), batch.alerts.len() as u64);
        let message = Message::Alerts { url: &target.url, body };
        match send(&self.env, &*self.post, message, &batch.tenant).await {
            Ok(()) => {
                target.metrics.notified.inc_by(sent);
                target.health.note(None);
                lock(&target.queue).done(&batch.tenant);
            }
            Err(NotSent::Refused(reason)) => {
                target.metrics.lose("refused", sent);
                target.health.note(Some(format!("{reason}: the alerts were refused and are lost")));
                lock(&target.queue).done(&batch.tenant);
            }
            Err(NotSent::Failed(reason)) => {
                target.metrics.notification_failures.inc();
                target.health.note(Some(reason));
                let lost = lock(&target.queue).give_back(batch, &self.env);
                target.metrics.lose("queue_full", lost);
            }
        }
    }
}
