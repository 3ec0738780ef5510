//! Sends alerts to Alertmanagers (API v2), and notifications about groups of alerts to receivers.
//!
//! Each Alertmanager has a queue and a task of its own, so that one that is slow or dead does not delay the
//! others. A queue has one entry per alert: a newer state of an alert replaces the one that waits. Tenants
//! take turns, and a tenant whose requests fail pauses alone.
//!
//! The Alertmanagers are those of the options, and those of a file ([`AlertingFile`]) that may change. Rules
//! of that file change labels of alerts, after the external labels were added, or drop alerts.
//!
//! A receiver is a webhook or a mailbox. It does what an Alertmanager would do for a small site: it keeps
//! alerts in groups ([`groups`]), and tells each group when it changed, or again after a while, without
//! alerts that a silence silences ([`crate::silence`]).
//!
//! A message has alerts of one tenant, which it names in the header `X-Scope-OrgID`.
//!
//! **Invariants.** Queues and groups are bounded; when there is no room, an alert of the tenant with the most
//! is lost and counted. A message that fails is repeated with back-off. Evaluations never wait for
//! notifications.

mod alerting;
mod alertmanager;
mod body;
mod grouping;
mod groups;
mod health;
mod mail;
mod notification;
mod origin;
mod post;
mod queue;
mod receiver;
mod webhook;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use sandur_model::{Labels, RuleShards, StreamId, TenantId};
use sandur_runtime::{Env, ShutdownSignal};
use sandur_targets::{LabelSet, Relabel, relabel};

use crate::alert::Alert;
use crate::data::Instant;
use crate::external::External;
use crate::metrics::RuleMetrics;
use crate::silence::Mute;
use crate::spec::Expression;
pub use alerting::{AlertingFile, Destination};
pub use alertmanager::AlertmanagerShown;
use alertmanager::{Running, Target};
pub use grouping::Grouping;
pub use health::host_of;
use health::lock;
pub use mail::Mail;
use notification::Told;
pub use origin::Origin;
pub use post::{Message, NotSent, Outcome, Post};
pub use queue::QUEUED_MAX;
pub use receiver::{Address, ReceiverShown};
use receiver::{Means, Receiver};

/// The sender of alerts. Cheap to clone: a handle.
#[derive(Clone)]
pub struct Notifier(Arc<Inner>);

/// What a notifier needs.
pub struct NotifierParts {
    /// Clock and tasks.
    pub env: Env,
    /// The URLs of Alertmanagers.
    pub alertmanagers: Vec<String>,
    /// The receivers of groups.
    pub receivers: Vec<Address>,
    /// How their alerts are grouped.
    pub grouping: Grouping,
    /// External labels and URL.
    pub external: Arc<External>,
    /// Knows the silences; `None`: there are none.
    pub silences: Option<Arc<dyn Mute>>,
    /// Sends messages.
    pub post: Arc<dyn Post>,
    /// Counters.
    pub metrics: RuleMetrics,
}

struct Inner {
    means: Means,
    running: Mutex<Vec<Running>>,
    receivers: Vec<Receiver>,
    /// Rules that change the labels of all alerts.
    relabel: Mutex<Arc<Vec<Relabel>>>,
}

impl Notifier {
    /// A notifier that sends to these Alertmanagers and receivers.
    pub fn new(parts: NotifierParts) -> Self {
        let NotifierParts { env, alertmanagers, receivers, grouping, external, silences, post, metrics } =
            parts;
        let means = Means { env, post, external, silences, metrics };
        let grouping = Arc::new(grouping);
        let start = |address| Receiver::start(means.clone(), address, Arc::clone(&grouping));
        let receivers = receivers.into_iter().map(start).collect();
        let (running, relabel) = (Mutex::default(), Mutex::default());
        let notifier = Self(Arc::new(Inner { means, running, receivers, relabel }));
        notifier.set(destinations(&alertmanagers), Vec::new());
        notifier
    }

    /// Follows a file with Alertmanagers until the server stops. Those of the options stay.
    pub async fn follow(self, mut file: AlertingFile, urls: Vec<String>, stopping: ShutdownSignal) {
        let Means { env, metrics, .. } = self.0.means.clone();
        loop {
            let read = move || {
                let found = file.read();
                (file, found)
            };
            let (after, found) = env.run_blocking(read).await;
            file = after;
            metrics.alerting_broken.set(i64::from(file.error.is_some()));
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
        let Means { env, post, metrics, .. } = &self.0.means;
        *lock(&self.0.relabel) = Arc::new(relabel);
        let mut running = lock(&self.0.running);
        let mut before = std::mem::take(&mut *running);
        for Destination { url, relabel } in wanted {
            if running.iter().any(|other| other.target.url == url) {
                continue;
            }
            let same = before.iter().position(|running| running.target.url == url);
            let start = || Running::start(env, url, Arc::clone(post), metrics.clone());
            let one = same.map_or_else(start, |at| before.swap_remove(at));
            one.target.set_relabel(relabel);
            running.push(one);
        }
        for gone in before {
            metrics.lose("removed", gone.target.queued() as u64);
        }
    }

    /// Sends alerts of a rule with this expression to all Alertmanagers and receivers.
    pub fn send(&self, origin: Origin<'_>, expression: Expression<'_>, alerts: Vec<Alert>) {
        let Inner { means, receivers, relabel: rules, .. } = &*self.0;
        let targets = self.0.targets();
        if alerts.is_empty() || (targets.is_empty() && receivers.is_empty()) {
            return;
        }
        let link = self.link_of(expression);
        let rules = Arc::clone(&lock(rules));
        for alert in &alerts {
            let mut labels: LabelSet = body::labels_of(alert, &means.external);
            if !relabel(&rules, &mut labels) {
                continue;
            }
            targets.iter().for_each(|target| target.push(origin, alert, &labels, &link));
            if !receivers.is_empty() {
                let told = Arc::new(Told::new(alert, body::sorted(&labels), &link));
                receivers.iter().for_each(|receiver| receiver.push(&means.env, origin, &told));
            }
        }
        targets.iter().for_each(|target| target.wake());
        receivers.iter().for_each(Receiver::wake);
    }

    /// The labels with which an alert is sent; `None` if a rule drops it.
    pub fn labels_of(&self, alert: &Alert) -> Option<Labels> {
        let rules = Arc::clone(&lock(&self.0.relabel));
        let mut labels = body::labels_of(alert, &self.0.means.external);
        relabel(&rules, &mut labels).then(|| body::sorted(&labels))
    }

    /// The link to an expression that alerts are sent with.
    pub fn link_of(&self, expression: Expression<'_>) -> Arc<str> {
        self.0.means.external.page_of(expression).into()
    }

    /// Whether receivers are told about groups.
    pub fn has_receivers(&self) -> bool {
        !self.0.receivers.is_empty()
    }

    /// Tells receivers that alerts ended which the rules of a group do not have any more: rules were removed,
    /// or their alerts have other labels.
    pub fn keep(&self, origin: Origin<'_>, alive: &HashSet<StreamId>) {
        let now = Instant::of_ns(self.0.means.env.now_ns());
        self.0.receivers.iter().for_each(|receiver| receiver.keep(origin, alive, now));
    }

    /// Removes alerts of a tenant's groups in these shards that wait to be sent, because another process
    /// sends them from now on.
    pub fn withdraw(&self, tenant: &TenantId, shards: RuleShards) {
        if shards.is_empty() {
            return;
        }
        self.0.targets().iter().for_each(|target| target.withdraw(tenant, shards));
        self.0.receivers.iter().for_each(|receiver| receiver.withdraw(tenant, shards));
    }

    /// The Alertmanagers.
    pub fn targets(&self) -> Vec<AlertmanagerShown> {
        self.0.targets().iter().map(|target| target.shown()).collect()
    }

    /// The receivers.
    pub fn receivers(&self) -> Vec<ReceiverShown> {
        self.0.receivers.iter().map(Receiver::shown).collect()
    }

    /// Whether no alert waits to be sent to an Alertmanager.
    pub fn is_idle(&self) -> bool {
        self.0.targets().iter().all(|target| target.queued() == 0)
    }
}

impl Inner {
    fn targets(&self) -> Vec<Arc<Target>> {
        lock(&self.running).iter().map(|running| Arc::clone(&running.target)).collect()
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

#[cfg(test)]
mod groups_tests;
#[cfg(test)]
mod tests;
