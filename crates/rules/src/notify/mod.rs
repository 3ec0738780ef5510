//! Sends alerts to Alertmanagers (API v2).
//!
//! Each Alertmanager has a queue and a task of its own, so that one that is slow or dead does not delay the
//! others. A queue has one entry per alert: a newer state of an alert replaces the one that waits.
//!
//! A request has alerts of one tenant, which it names in the header `X-Scope-OrgID`.
//!
//! **Invariants.** A queue is bounded; when it is full, the oldest alert is lost and counted. A request that
//! fails is repeated with back-off until the Alertmanager accepts it or refuses it for good. Evaluations
//! never wait for notifications.

mod body;
mod queue;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandur_base::BoxFuture;
use sandur_model::TenantId;
use sandur_runtime::{Backoff, Env, Task};
use tokio::sync::Notify;

use crate::alert::Alert;
use crate::external::External;
use crate::metrics::RuleMetrics;
pub use queue::QUEUED_MAX;
use queue::{AlertKey, Entry, Queue};

/// The most alerts of a request.
const BATCH: usize = 256;
/// The longest request.
const TIMEOUT: Duration = Duration::from_secs(10);
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));

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
    targets: Arc<Vec<Target>>,
    external: Arc<External>,
    metrics: RuleMetrics,
    /// The tasks end when the notifier is dropped.
    _tasks: Vec<Task<()>>,
}

/// An Alertmanager.
struct Target {
    url: String,
    queue: Mutex<Queue>,
    arrived: Notify,
    last_error: Mutex<Option<String>>,
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
        let target = |url: &String| {
            let url = format!("{}/api/v2/alerts", url.trim_end_matches('/'));
            let queue = Mutex::new(Queue::default());
            Target { url, queue, arrived: Notify::new(), last_error: Mutex::default() }
        };
        let targets: Arc<Vec<Target>> = Arc::new(urls.iter().map(target).collect());
        let start = |number: usize| {
            let (targets, post, metrics) = (Arc::clone(&targets), Arc::clone(&post), metrics.clone());
            let sender = Sender { env: env.clone(), targets, number, post, metrics };
            env.spawn("notifications", sender.run())
        };
        let tasks = (0..targets.len()).map(start).collect();
        Self(Arc::new(Inner { targets, external, metrics, _tasks: tasks }))
    }

    /// Queues alerts of a tenant's rule with this expression for all Alertmanagers.
    pub fn send(&self, tenant: &TenantId, expr: &str, alerts: Vec<Alert>) {
        let Inner { targets, external, metrics, .. } = &*self.0;
        if alerts.is_empty() || targets.is_empty() {
            return;
        }
        let link = external.table_link(expr);
        for alert in alerts {
            let (id, entry) = body::entry(&alert, external, &link);
            for target in targets.iter() {
                let lost = target.lock().push((tenant.clone(), id), Arc::clone(&entry));
                if lost > 0 {
                    metrics.lose("queue_full", lost);
                }
            }
        }
        targets.iter().for_each(|target| target.arrived.notify_one());
        observe(targets, metrics);
    }

    /// The Alertmanagers.
    pub fn targets(&self) -> Vec<AlertmanagerShown> {
        let shown = |target: &Target| AlertmanagerShown {
            url: without_credentials(&target.url),
            queued: target.lock().len(),
            last_error: target.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        self.0.targets.iter().map(shown).collect()
    }

    /// Whether an alert waits to be sent.
    pub fn is_idle(&self) -> bool {
        self.0.targets.iter().all(|target| target.lock().len() == 0)
    }
}

/// Shows how many alerts wait.
fn observe(targets: &[Target], metrics: &RuleMetrics) {
    let queued: usize = targets.iter().map(|target| target.lock().len()).sum();
    metrics.queued.set(queued as i64);
}

impl Target {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, error: Option<String>) {
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
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
    targets: Arc<Vec<Target>>,
    number: usize,
    post: Arc<dyn Post>,
    metrics: RuleMetrics,
}

impl Sender {
    async fn run(self) {
        let target = &self.targets[self.number];
        let mut pauses = PAUSES.pauses();
        loop {
            let batch = target.lock().take(BATCH);
            if batch.is_empty() {
                target.arrived.notified().await;
                continue;
            }
            let is_done = self.send(target, batch).await;
            observe(&self.targets, &self.metrics);
            match is_done {
                true => pauses = PAUSES.pauses(),
                false => self.env.sleep(pauses.after_failure_with_jitter(&self.env)).await,
            }
        }
    }

    /// Sends a batch. Returns false if it has to be sent again; it is in the queue then.
    async fn send(&self, target: &Target, batch: Vec<(AlertKey, Entry)>) -> bool {
        let (body, sent) = (body::of_batch(&batch), batch.len() as u64);
        let Some(((tenant, _), _)) = batch.first() else { return true };
        let request = self.post.post(&target.url, tenant, body, TIMEOUT);
        let outcome = self.env.timeout(TIMEOUT, request).await;
        match outcome.unwrap_or_else(|| Err(format!("no answer within {TIMEOUT:?}"))) {
            Ok(200..=299) => {
                self.metrics.notified.inc_by(sent);
                target.note(None);
                true
            }
            // Another attempt with the same alerts would be refused again.
            Ok(status @ (400 | 422)) => {
                self.metrics.lose("refused", sent);
                target.note(Some(format!("HTTP status {status}: the alerts were refused and are lost")));
                true
            }
            failed => {
                self.metrics.notification_failures.inc();
                let status = |status| format!("HTTP status {status}");
                target.note(Some(failed.map_or_else(|error| error, status)));
                let lost = target.lock().give_back(batch);
                if lost > 0 {
                    self.metrics.lose("queue_full", lost);
                }
                false
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
