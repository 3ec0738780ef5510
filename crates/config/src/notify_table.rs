//! The options of notifications by webhook.

use super::option_spec::{OptionSpec, option};
use super::slot::Slot;

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
