//! The settings of notifications by webhook and e-mail with their defaults, which are those of Alertmanager.

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
    /// Addresses of recipients of e-mails.
    pub email_to: Vec<String>,
    /// Sender of e-mails.
    pub email_from: String,
    /// SMTP server, as `HOST:PORT`.
    pub email_smarthost: String,
    /// Encryption of the connection: `starttls`, `tls` or `none`.
    pub email_tls: String,
    /// Authorities of the SMTP server; empty: those of the system.
    pub email_ca_file: String,
    /// User of the SMTP server; empty: no authentication.
    pub email_user: String,
    /// File with the password of the user.
    pub email_password_file: String,
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
            email_to: Vec::new(),
            email_from: String::new(),
            email_smarthost: String::new(),
            email_tls: "starttls".to_owned(),
            email_ca_file: String::new(),
            email_user: String::new(),
            email_password_file: String::new(),
            group_by: vec!["alertname".to_owned()],
            group_wait: Duration::from_secs(30),
            group_interval: Duration::from_secs(5 * 60),
            repeat_interval: Duration::from_secs(4 * 3_600),
        }
    }
}
