//! A notification about a group of alerts, as webhooks and e-mails tell it.

use std::sync::Arc;
use std::time::Duration;

use sandur_model::{Labels, StreamId, TenantId};
use xxhash_rust::xxh3::Xxh3;

use crate::alert::{Alert, bytes_of_pairs};
use crate::data::{Instant, bytes_of};
use crate::spec::Pairs;

/// The most alerts that a notification lists; it counts the others.
pub const LISTED_MAX: usize = 1_000;
/// The most bytes of labels and annotations of the alerts that a notification lists.
pub const LISTED_BYTES_MAX: usize = 4 << 20;
/// Bytes of an alert without its texts.
const ALERT_BYTES: usize = 256;

/// An alert as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The id of its labels.
    pub id: StreamId,
    /// The id of the labels that it has in its rule.
    pub of_rule: StreamId,
    /// Its labels, with external ones.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Arc<Pairs>,
    /// A link to its expression.
    pub link: Arc<str>,
    /// When it fired.
    pub starts_at: Instant,
    /// When it ended; `None` while it fires.
    pub ends_at: Option<Instant>,
}

impl Told {
    /// An alert with these labels.
    pub fn new(alert: &Alert, labels: Labels, link: &Arc<str>) -> Self {
        Self {
            id: labels.stream_id(),
            of_rule: alert.labels.stream_id(),
            labels,
            annotations: Arc::clone(&alert.annotations),
            link: Arc::clone(link),
            starts_at: alert.fired_at.unwrap_or(alert.active_at),
            ends_at: alert.resolved_at,
        }
    }

    /// Whether it fires.
    pub fn is_firing(&self) -> bool {
        self.ends_at.is_none()
    }

    /// `firing` or `resolved`.
    pub fn status(&self) -> &'static str {
        if self.is_firing() { "firing" } else { "resolved" }
    }

    /// The bytes that it uses.
    pub fn bytes(&self) -> usize {
        let texts = bytes_of(&self.labels) + bytes_of_pairs(&self.annotations);
        ALERT_BYTES + texts as usize + self.link.len()
    }
}

/// A notification.
#[derive(Clone, Debug)]
pub struct Notification {
    /// The tenant.
    pub tenant: TenantId,
    /// The key of the group.
    pub group: Arc<str>,
    /// The labels of the group.
    pub labels: Labels,
    /// Alerts that fire, and then those that ended since the last notification; each in the order of labels.
    pub alerts: Vec<Arc<Told>>,
    /// All alerts that it is about, also those that it does not list.
    pub about: Vec<Arc<Told>>,
    /// Equal for all attempts to send this notification, from any process.
    pub id: String,
}

impl Notification {
    /// A notification about alerts, of which it lists as many as it may have.
    pub fn new(
        (tenant, group, labels): (TenantId, Arc<str>, Labels),
        mut alerts: Vec<Arc<Told>>,
        id: String,
    ) -> Self {
        alerts.sort_by(|a, b| (!a.is_firing(), &a.labels).cmp(&(!b.is_firing(), &b.labels)));
        let mut bytes = 0;
        let is_listed = |(number, alert): &(usize, &Arc<Told>)| {
            bytes += alert.bytes();
            *number < LISTED_MAX && bytes <= LISTED_BYTES_MAX
        };
        let listed = alerts.iter().enumerate().take_while(is_listed).count();
        let about = alerts.clone();
        alerts.truncate(listed);
        Self { tenant, group, labels, alerts, about, id }
    }

    /// How many alerts it does not list.
    pub fn left_out(&self) -> usize {
        self.about.len() - self.alerts.len()
    }

    /// Whether an alert of it fires. Alerts that fire are listed first.
    pub fn is_firing(&self) -> bool {
        self.alerts.first().is_some_and(|alert| alert.is_firing())
    }

    /// `firing` if an alert of it fires, or else `resolved`.
    pub fn status(&self) -> &'static str {
        if self.is_firing() { "firing" } else { "resolved" }
    }

    /// The labels that all listed alerts have in common.
    pub fn common_labels(&self) -> Vec<(&str, &str)> {
        let Some((first, others)) = self.alerts.split_first() else { return Vec::new() };
        let is_common =
            |(name, value): &(&str, &str)| others.iter().all(|alert| alert.labels.get(name) == Some(value));
        first.labels.iter().filter(is_common).collect()
    }

    /// The annotations that all listed alerts have in common.
    pub fn common_annotations(&self) -> Vec<(&str, &str)> {
        let Some((first, others)) = self.alerts.split_first() else { return Vec::new() };
        let is_common =
            |pair: &&(String, String)| others.iter().all(|alert| alert.annotations.contains(pair));
        first.annotations.iter().filter(is_common).map(|(name, value)| (&**name, &**value)).collect()
    }
}

/// The number of the repetition in which a notification is sent at this time. The beginning is the start of
/// the newest alert that fires, which all processes know, so that they count alike. Two notifications that
/// are at least `repeat` apart have different numbers.
pub fn repetition(alerts: &[Arc<Told>], now: Instant, repeat: Duration) -> u64 {
    let newest = alerts.iter().filter(|alert| alert.is_firing()).map(|alert| alert.starts_at).max();
    let since = newest.map_or(Duration::ZERO, |newest| now.since(newest));
    u64::try_from(since.as_nanos() / repeat.as_nanos().max(1)).unwrap_or(u64::MAX)
}

/// The hash of what a notification says: the states of its alerts, by which processes agree whether two
/// notifications are the same. Annotations are not in it: after a take-over, alerts that ended have none.
pub fn content(tenant: &TenantId, group: &str, alerts: &[Arc<Told>]) -> u128 {
    let mut hash = Xxh3::new();
    for text in [tenant.as_str(), group] {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    let mut alerts: Vec<&Arc<Told>> = alerts.iter().collect();
    alerts.sort_by_key(|alert| alert.id);
    for alert in alerts {
        hash.update(&alert.id.0.to_le_bytes());
        hash.update(&alert.starts_at.ms().to_le_bytes());
        hash.update(&[u8::from(alert.is_firing())]);
    }
    hash.digest128()
}

/// The id of a notification with this content.
pub fn id(content: u128, repetition: u64) -> String {
    format!("{content:032x}-{repetition}")
}
