//! The settings of notifications by webhook with their defaults, which are those of Alertmanager.

use std::time::Duration;

/// Notifications about groups of alerts.
#[derive(Clone, Debug, PartialEq)]
pub struct Notify {
    /// URLs of webhooks.
    pub webhook: Vec<String>,
    /// Bearer token for webhooks; empty: none.
    pub webhook_token_file: String,
    /// Authorities of webhooks; empty: those of the system.
    pub webhook_ca_file: String,
    /// Labels whose values make a group.
    pub group_by: Vec<String>,
    /// How long a new group waits for more alerts.
    pub group_wait: Duration,
    /// Time between two notifications about a group that changed.
    pub group_interval: Duration,
    /// Time after which a group that did not change is told again.
    pub repeat_interval: Duration,
}

impl Default for Notify {
    fn default() -> Self {
        Self {
            webhook: Vec::new(),
            webhook_token_file: String::new(),
            webhook_ca_file: String::new(),
            group_by: vec!["alertname".to_owned()],
            group_wait: Duration::from_secs(30),
            group_interval: Duration::from_secs(5 * 60),
            repeat_interval: Duration::from_secs(4 * 3_600),
        }
    }
}
