//! The options of the evaluation of rules.

use super::option_spec::{OptionSpec, option};
use super::slot::Slot;

/// The options below `[ruler]`.
pub static RULER: &[OptionSpec] = &[
    option("ruler.tenant", "Tenant whose data rules of files read and write.", |s| {
        Slot::Text(&mut s.ruler.tenant)
    }),
    option(
        "ruler.poll_interval",
        "How often rules that were stored through another process are looked for; at least 1 s.",
        |s| Slot::Duration(&mut s.ruler.poll_interval),
    ),
    option(
        "ruler.external_url",
        "URL of this server for links in notifications and templates. Empty: http:// and the address of the \
         HTTP listener.",
        |s| Slot::Text(&mut s.ruler.external_url),
    ),
    option("ruler.external_labels", "Labels (NAME=VALUE) that are added to every alert that is sent.", |s| {
        Slot::List(&mut s.ruler.external_labels)
    }),
    option("ruler.evaluation_interval", "Interval of groups of rules that name none.", |s| {
        Slot::Duration(&mut s.ruler.evaluation_interval)
    }),
    option("ruler.evaluation_timeout", "Longest evaluation of one rule; query.timeout applies too.", |s| {
        Slot::Duration(&mut s.ruler.evaluation_timeout)
    }),
    option("ruler.max_groups", "Maximum number of groups of all rule files.", |s| {
        Slot::Count(&mut s.ruler.max_groups)
    }),
    option("ruler.max_rules", "Maximum number of rules of all rule files.", |s| {
        Slot::Count(&mut s.ruler.max_rules)
    }),
    option(
        "ruler.max_series",
        "Maximum number of series of the expression of a rule; beyond it the evaluation fails.",
        |s| Slot::Count(&mut s.ruler.max_series),
    ),
    option("ruler.resend_delay", "Minimum time between two notifications about an unchanged alert.", |s| {
        Slot::Duration(&mut s.ruler.resend_delay)
    }),
    option(
        "ruler.for_outage_tolerance",
        "Longest outage after which pending alerts go on; after a longer one they start anew.",
        |s| Slot::Duration(&mut s.ruler.for_outage_tolerance),
    ),
    option(
        "ruler.for_grace_period",
        "Minimum time between a start and the moment when a restored alert fires that did not fire before. \
         Such an alert starts anew if its `for` is shorter.",
        |s| Slot::Duration(&mut s.ruler.for_grace_period),
    ),
    option(
        "ruler.alerting_config_file",
        "File with the section `alerting` of Prometheus' configuration: Alertmanagers, also from files, and \
         alert_relabel_configs. It is read every 10 s. Empty: none.",
        |s| Slot::Text(&mut s.ruler.alerting_config_file),
    ),
    option(
        "ruler.alertmanager_ca_file",
        "Authorities (PEM) that sign the certificates of Alertmanagers. Empty: those of the system.",
        |s| Slot::Text(&mut s.ruler.alertmanager_ca_file),
    ),
    option(
        "ruler.alertmanager_token_file",
        "File with a bearer token for Alertmanagers; it is read at each request. Empty: none.",
        |s| Slot::Text(&mut s.ruler.alertmanager_token_file),
    ),
];
