//! What is sent, and the trait that sends it.

use std::time::Duration;

use bytes::Bytes;
use sandur_base::BoxFuture;
use sandur_model::TenantId;
use sandur_runtime::Env;

use super::mail::Mail;

/// The longest attempt to send a message.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// A message for a system of the operator.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// Alerts as JSON, for the API v2 of an Alertmanager.
    Alerts {
        /// The URL of its API.
        url: &'a str,
        /// The body.
        body: Bytes,
    },
    /// A group of alerts as JSON, in the form of Alertmanager's webhook.
    Webhook {
        /// The URL.
        url: &'a str,
        /// The body.
        body: Bytes,
        /// The same for all attempts to send this notification, from any process.
        key: &'a str,
    },
    /// A group of alerts as an e-mail.
    Mail {
        /// The address of the recipient.
        to: &'a str,
        /// The e-mail.
        mail: Mail,
    },
}

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// Another attempt with the same content would be refused again.
    Refused(String),
    /// Another attempt may succeed.
    Failed(String),
}

/// The result of an attempt to send a message.
pub type Outcome = Result<(), NotSent>;

impl Message<'_> {
    /// The outcome of a request that was answered with this status of HTTP.
    pub fn outcome(&self, status: u16) -> Outcome {
        let is_refused = match self {
            Self::Alerts { .. } => matches!(status, 400 | 422),
            // As Alertmanager: what is wrong with a request does not pass by itself.
            Self::Webhook { .. } | Self::Mail { .. } => {
                (400..500).contains(&status) && !matches!(status, 408 | 429)
            }
        };
        let text = format!("HTTP status {status}");
        match status {
            200..=299 => Ok(()),
            _ if is_refused => Err(NotSent::Refused(text)),
            _ => Err(NotSent::Failed(text)),
        }
    }
}

impl NotSent {
    /// The reason.
    pub fn reason(&self) -> &str {
        let (Self::Refused(text) | Self::Failed(text)) = self;
        text
    }
}

/// Sends messages.
pub trait Post: Send + Sync {
    /// Sends a message about alerts of a tenant.
    fn post<'a>(
        &'a self,
        message: Message<'a>,
        tenant: &'a TenantId,
        timeout: Duration,
    ) -> BoxFuture<'a, Outcome>;
}

/// Sends a message, for at most [`TIMEOUT`].
pub async fn send(env: &Env, post: &dyn Post, message: Message<'_>, tenant: &TenantId) -> Outcome {
    let outcome = env.timeout(TIMEOUT, post.post(message, tenant, TIMEOUT)).await;
    outcome.unwrap_or_else(|| Err(NotSent::Failed(format!("no answer within {TIMEOUT:?}"))))
}
