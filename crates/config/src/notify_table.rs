//! The options of notifications by webhook and e-mail.

use super::option_spec::{OptionSpec, option};
use super::slot::Slot;

/// Values of `notify.email_tls`.
pub const EMAIL_TLS: &[&str] = &["starttls", "tls", "none"];

/// The options below `[notify]`.
pub static NOTIFY: &[OptionSpec] = &[
    option(
        "notify.webhook",
        "URLs that groups of alerts are posted to, in the form of Alertmanager's webhook. A user and a \
         password in the URL are sent as basic authentication. Empty: none.",
        |s| Slot::List(&mut s.notify.webhook),
    ),
    option(
        "notify.webhook_token_file",
        "File with a bearer token for webhooks; it is read at each request. Empty: none.",
        |s| Slot::Text(&mut s.notify.webhook_token_file),
    ),
    option(
        "notify.webhook_ca_file",
        "Authorities (PEM) that sign the certificates of webhooks. Empty: those of the system.",
        |s| Slot::Text(&mut s.notify.webhook_ca_file),
    ),
    option(
        "notify.email_to",
        "Addresses that groups of alerts are sent to by e-mail. They require notify.email_smarthost. Empty: \
         none.",
        |s| Slot::List(&mut s.notify.email_to),
    ),
    option("notify.email_from", "Sender of e-mails, such as Sandur <alerts@example.org>.", |s| {
        Slot::Text(&mut s.notify.email_from)
    }),
    option(
        "notify.email_smarthost",
        "SMTP server that e-mails are given to, as HOST:PORT. Without a port: 587, or 465 with email_tls = \
         tls.",
        |s| Slot::Text(&mut s.notify.email_smarthost),
    ),
    option(
        "notify.email_tls",
        "How the connection to the SMTP server is encrypted: starttls (required, after a greeting), tls \
         (from the first byte) or none.",
        |s| Slot::Choice(&mut s.notify.email_tls, EMAIL_TLS),
    ),
    option(
        "notify.email_ca_file",
        "Authorities (PEM) that sign the certificate of the SMTP server. Empty: those of the system.",
        |s| Slot::Text(&mut s.notify.email_ca_file),
    ),
    option("notify.email_user", "User of the SMTP server. Empty: no authentication.", |s| {
        Slot::Text(&mut s.notify.email_user)
    }),
    option(
        "notify.email_password_file",
        "File with the password of the user; it is read for each e-mail.",
        |s| Slot::Text(&mut s.notify.email_password_file),
    ),
    option(
        "notify.group_by",
        "Labels of alerts. Alerts of a group of rules whose values of these labels are equal are told \
         together. `...`: all labels. Empty: one notification for each group of rules.",
        |s| Slot::List(&mut s.notify.group_by),
    ),
    option("notify.group_wait", "How long a new group of alerts waits for more before it is told.", |s| {
        Slot::Duration(&mut s.notify.group_wait)
    }),
    option(
        "notify.group_interval",
        "Time between two notifications about a group of alerts that changed; at least 1 s.",
        |s| Slot::Duration(&mut s.notify.group_interval),
    ),
    option(
        "notify.repeat_interval",
        "Time after which a group of alerts that did not change is told again.",
        |s| Slot::Duration(&mut s.notify.repeat_interval),
    ),
];
