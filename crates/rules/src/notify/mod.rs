//! Sends alerts to Alertmanagers (API v2).
//!
//! Each Alertmanager has a queue and a task of its own, so that one that is slow or dead does not delay the
//! others. A queue has one entry per alert: a newer state of an alert replaces the one that waits. Tenants
//! take turns, and a tenant whose requests fail pauses alone.
//!
//! The Alertmanagers are those of the options, and those of a file ([`AlertingFile`]) that may change. Rules
//! of that file change labels of alerts, after the external labels were added, or drop alerts.
//!
//! A request has alerts of one tenant, which it names in the header `X-Scope-OrgID`.
//!
//! **Invariants.** A queue is bounded; when it is full, the oldest alert of the tenant with the most is lost
//! and counted. A request that fails is repeated with back-off until the Alertmanager accepts it or refuses
//! it for good. Evaluations never wait for notifications.

mod alerting;
mod body;
mod queue;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandur_base::BoxFuture;
use sandur_model::{RuleShards, TenantId};
use sandur_runtime::{Env, ShutdownSignal, Task};
use sandur_targets::{LabelSet, Relabel, relabel};
use tokio::sync::Notify;

use crate::alert::Alert;
use crate::external::External;
use crate::metrics::RuleMetrics;
pub use alerting::{AlertingFile, Destination};
pub use queue::QUEUED_MAX;
use queue::{Batch, Next, Queue, Queued};

/// The most alerts of a request.
const BATCH: usize = 256;
/// The longest request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Whose alerts are sent.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The tenant.
    pub tenant: &'a TenantId,
    /// The shard of the group, if groups are divided among processes.
    pub shard: Option<u32>,
}

/// Sends a request.
pub trait Post: Send + Sync {
    /// Posts JSON of a tenant to a URL. Returns the status; an error says why there is none.
    fn post<'a>(
        &'a self,
        url: &'a str,
        tenant: &'a TenantId,
        body: Bytes,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<u16, String>>;
}

/// The sender of alerts. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Notifier(Arc<Inner>);

struct Inner {
    env: Env,
    post: Arc<dyn Post>,
    running: Mutex<Vec<Running>>,
    /// Rules that change the labels of all alerts.
    relabel: Mutex<Arc<Vec<Relabel>>>,
    external: Arc<External>,
    metrics: RuleMetrics,
}

/// An Alertmanager and its task, which ends when this is dropped.
struct Running {
    target: Arc<Target>,
    _task: Task<()>,
}

/// An Alertmanager.
struct Target {
    url: String,
    relabel: Mutex<Vec<Relabel>>,
    queue: Mutex<Queue>,
    arrived: Notify,
    last_error: Mutex<Option<String>>,
    metrics: RuleMetrics,
    /// How many of its alerts the gauge of waiting alerts has.
    counted: Mutex<i64>,
}

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

impl Notifier {
    /// A notifier that sends to the Alertmanagers with these URLs.
    pub fn new(
        env: &Env,
        urls: &[String],
        external: Arc<External>,
        post: Arc<dyn Post>,
        metrics: RuleMetrics,
    ) -> Self {
        let (running, relabel, env) = (Mutex::default(), Mutex::default(), env.clone());
        let notifier = Self(Arc::new(Inner { env, post, running, relabel, external, metrics }));
        notifier.set(destinations(urls), Vec::new());
        notifier
    }

    /// Follows a file with Alertmanagers until the server stops. Those of the options stay.
    pub async fn follow(self, mut file: AlertingFile, urls: Vec<String>, stopping: ShutdownSignal) {
        let env = self.0.env.clone();
        loop {
            let read = move || {
                let found = file.read();
                (file, found)
            };
            let (after, found) = env.run_blocking(read).await;
            file = after;
            self.0.metrics.alerting_broken.set(i64::from(file.error.is_some()));
            let mut all = destinations(&urls);
            all.extend(found.destinations);
            self.set(all, found.relabel);
            if env.timeout(AlertingFile::REFRESH, stopping.triggered()).await.is_some() {
                return;
            }
        }
    }

    /// Sends to these Alertmanagers from now on. One that stays keeps its queue; what waits for one that is
    /// gone is lost and counted.
    fn set(&self, wanted: Vec<Destination>, relabel: Vec<Relabel>) {
        let inner = &*self.0;
        *lock(&inner.relabel) = Arc::new(relabel);
        let mut running = lock(&inner.running);
        let mut before = std::mem::take(&mut *running);
        for Destination { url, relabel } in wanted {
            if running.iter().any(|other| other.target.url == url) {
                continue;
            }
            let same = before.iter().position(|running| running.target.url == url);
            let one = same.map_or_else(|| inner.start(url), |at| before.swap_remove(at));
            *lock(&one.target.relabel) = relabel;
            running.push(one);
        }
        for gone in before {
            let lost = gone.target.lock().len() as u64;
            if lost > 0 {
                inner.metrics.lose("removed", lost);
            }
        }
    }

    /// Queues alerts of a rule with this expression for all Alertmanagers.
    pub fn send(&self, origin: Origin<'_>, expr: &str, alerts: Vec<Alert>) {
        let targets = self.0.all();
        if alerts.is_empty() || targets.is_empty() {
            return;
        }
        let link = self.0.external.table_link(expr);
        self.0.each_labels(&targets, alerts.iter(), |alert, target, labels| {
            let (id, text) = body::entry(alert, labels, &link);
            let lost = target.lock().push(origin.tenant, Queued { id, text, shard: origin.shard });
            if lost > 0 {
                self.0.metrics.lose("queue_full", lost);
            }
        });
        for target in &targets {
            target.count();
            target.arrived.notify_one();
        }
    }

    /// Removes alerts of a tenant's groups in these shards that wait to be sent, because another process
    /// sends them from now on.
    pub fn withdraw(&self, tenant: &TenantId, shards: RuleShards) {
        for target in self.0.all() {
            target.lock().withdraw(tenant, shards);
            target.count();
        }
    }

    /// The Alertmanagers.
    pub fn targets(&self) -> Vec<AlertmanagerShown> {
        let shown = |running: &Running| AlertmanagerShown {
            url: without_credentials(&running.target.url),
            queued: running.target.lock().len(),
            last_error: lock(&running.target.last_error).clone(),
        };
        lock(&self.0.running).iter().map(shown).collect()
    }

    /// Whether no alert waits to be sent.
    pub fn is_idle(&self) -> bool {
        lock(&self.0.running).iter().all(|running| running.target.lock().len() == 0)
    }
}

impl Inner {
    fn all(&self) -> Vec<Arc<Target>> {
        lock(&self.running).iter().map(|running| Arc::clone(&running.target)).collect()
    }

    /// Calls a function with the labels that each Alertmanager gets of each alert, unless they are dropped.
    fn each_labels<'a>(
        &self,
        targets: &[Arc<Target>],
        alerts: impl Iterator<Item = &'a Alert>,
        mut each: impl FnMut(&'a Alert, &Target, &LabelSet),
    ) {
        let rules = Arc::clone(&lock(&self.relabel));
        for alert in alerts {
            let mut labels = body::labels_of(alert, &self.external);
            if !relabel(&rules, &mut labels) {
                continue;
            }
            for target in targets {
                let mut labels = labels.clone();
                if relabel(&lock(&target.relabel), &mut labels) {
                    each(alert, target, &labels);
                }
            }
        }
    }

    fn start(&self, url: String) -> Running {
        let target = Arc::new(Target {
            url,
            relabel: Mutex::default(),
            queue: Mutex::default(),
            arrived: Notify::new(),
            last_error: Mutex::default(),
            metrics: self.metrics.clone(),
            counted: Mutex::default(),
        });
        let (env, post, metrics) = (self.env.clone(), Arc::clone(&self.post), self.metrics.clone());
        let sender = Sender { env, target: Arc::clone(&target), post, metrics };
        Running { target, _task: self.env.spawn("notifications", sender.run()) }
    }
}

/// Alertmanagers of the options.
fn destinations(urls: &[String]) -> Vec<Destination> {
    let of = |url: &String| Destination {
        url: format!("{}/api/v2/alerts", url.trim_end_matches('/')),
        relabel: Vec::new(),
    };
    urls.iter().map(of).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Target {
    fn drop(&mut self) {
        self.metrics.queued.dec_by(*lock(&self.counted));
    }
}

impl Target {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Corrects the gauge of waiting alerts by what changed here.
    fn count(&self) {
        let waiting = self.lock().len() as i64;
        let mut counted = lock(&self.counted);
        self.metrics.queued.inc_by(waiting - *counted);
        *counted = waiting;
    }

    fn note(&self, error: Option<String>) {
        let mut last = lock(&self.last_error);
        if let Some(error) = error.as_ref().filter(|_| last.is_none()) {
            tracing::warn!(
                url = without_credentials(&self.url),
                error,
                "alerts cannot be sent; trying again"
            );
        }
        *last = error;
    }
}

/// Sends what is queued for an Alertmanager, one request after the other.
struct Sender {
    env: Env,
    target: Arc<Target>,
    post: Arc<dyn Post>,
    metrics: RuleMetrics,
}

impl Sender {
    async fn run(self) {
        let target = &self.target;
        loop {
            let next = target.lock().take(self.env.monotonic(), BATCH);
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
        let request = self.post.post(&target.url, &batch.tenant, body, TIMEOUT);
        let outcome = self.env.timeout(TIMEOUT, request).await;
        match outcome.unwrap_or_else(|| Err(format!("no answer within {TIMEOUT:?}"))) {
            Ok(200..=299) => {
                self.metrics.notified.inc_by(sent);
                target.note(None);
                target.lock().done(&batch.tenant);
            }
            // Another attempt with the same alerts would be refused again.
            Ok(status @ (400 | 422)) => {
                self.metrics.lose("refused", sent);
                target.note(Some(format!("HTTP status {status}: the alerts were refused and are lost")));
                target.lock().done(&batch.tenant);
            }
            failed => {
                self.metrics.notification_failures.inc();
                let status = |status| format!("HTTP status {status}");
                target.note(Some(failed.map_or_else(|error| error, status)));
                let lost = target.lock().give_back(batch, &self.env);
                if lost > 0 {
                    self.metrics.lose("queue_full", lost);
                }
            }
        }
    }
}

/// A URL without a user and a password.
fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let host_end = rest.find('/').unwrap_or(rest.len());
    match rest[..host_end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests;
