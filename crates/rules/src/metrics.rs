//! Counters of rules and notifications. No metric has a label per rule or group, so their number is bounded.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::error::EvaluationError;

/// Labels of failures and losses.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    /// The reason.
    reason: &'static str,
}

/// Bounds of durations, in seconds.
/// Why alerts are not sent.
const LOST_REASONS: [&str; 4] = ["queue_full", "too_large", "refused", "removed"];
const SECONDS: [f64; 10] = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// Counters of rules. Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct RuleMetrics {
    /// Groups that are evaluated.
    pub groups: Gauge,
    /// Rules that are evaluated.
    pub rules: Gauge,
    /// Files whose last version is not in use because of an error.
    pub broken_files: Gauge,
    /// Evaluations of rules.
    pub evaluations: Counter,
    failures: Family<ReasonLabels, Counter>,
    /// Evaluations of groups that were left out.
    pub missed: Counter,
    /// Evaluations of groups that were made up after a pause.
    pub made_up: Counter,
    /// Groups that another process evaluates.
    pub elsewhere: Gauge,
    /// Shards of rules that this process took over.
    pub taken_over: Counter,
    /// How long evaluations of groups took.
    pub group_seconds: Histogram,
    /// How long after their times evaluations of groups began.
    pub lateness: Histogram,
    /// Alerts that an Alertmanager or a receiver accepted.
    pub notified: Counter,
    /// Messages to an Alertmanager or a receiver that failed.
    pub notification_failures: Counter,
    lost: Family<ReasonLabels, Counter>,
    /// Alerts that wait to be sent, of all Alertmanagers.
    pub queued: Gauge,
    /// Alerts in the groups of all receivers.
    pub grouped: Gauge,
    /// Whether the file of Alertmanagers has an error.
    pub alerting_broken: Gauge,
    /// Tenants with rules that were stored through the API.
    pub stored_tenants: Gauge,
    /// Objects of stored rules that are damaged, so that what held before is used.
    pub stored_broken: Gauge,
    /// Reads of the index of stored rules.
    pub stored_reads: Counter,
    /// Changes of stored rules by this process.
    pub stored_changes: Counter,
}

impl Default for RuleMetrics {
    fn default() -> Self {
        Self {
            groups: Gauge::default(),
            rules: Gauge::default(),
            broken_files: Gauge::default(),
            evaluations: Counter::default(),
            failures: Family::default(),
            missed: Counter::default(),
            made_up: Counter::default(),
            elsewhere: Gauge::default(),
            taken_over: Counter::default(),
            group_seconds: Histogram::new(SECONDS),
            lateness: Histogram::new(SECONDS),
            notified: Counter::default(),
            notification_failures: Counter::default(),
            lost: Family::default(),
            queued: Gauge::default(),
            grouped: Gauge::default(),
            alerting_broken: Gauge::default(),
            stored_tenants: Gauge::default(),
            stored_broken: Gauge::default(),
            stored_reads: Counter::default(),
            stored_changes: Counter::default(),
        }
    }
}

impl RuleMetrics {
    /// Adds the counters to a registry.
    pub fn register(&self, all: &mut Registry) {
        let own = self.clone();
        all.register("sandur_rules_groups", "Groups of rules that are evaluated", own.groups);
        all.register("sandur_rules_rules", "Rules that are evaluated", own.rules);
        let text = "Rule files whose last version has an error, so that the version before is used";
        all.register("sandur_rules_broken_files", text, own.broken_files);
        all.register("sandur_rules_evaluations", "Evaluations of rules", own.evaluations);
        let text = "Evaluations of rules that failed and changed nothing, by reason";
        all.register("sandur_rules_evaluation_failures", text, own.failures);
        let text = "Evaluations of groups that were left out because the group was late";
        all.register("sandur_rules_missed_evaluations", text, own.missed);
        let text = "Evaluations of groups that were made up at their own times after a pause";
        all.register("sandur_rules_made_up_evaluations", text, own.made_up);
        let text = "Groups of rules that another process evaluates";
        all.register("sandur_rules_groups_elsewhere", text, own.elsewhere);
        let text = "Shards of rules that this process took over";
        all.register("sandur_rules_taken_over", text, own.taken_over);
        let text = "How long evaluations of groups took";
        all.register("sandur_rules_group_evaluation_seconds", text, own.group_seconds);
        let text = "How long after their times evaluations of groups began";
        all.register("sandur_rules_group_lateness_seconds", text, own.lateness);
        let text = "Alerts that an Alertmanager or a receiver of groups accepted";
        all.register("sandur_rules_notifications", text, own.notified);
        let text = "Messages to an Alertmanager or a receiver of groups that failed and are repeated";
        all.register("sandur_rules_notification_failures", text, own.notification_failures);
        let text = "Alerts that were not sent, by reason";
        all.register("sandur_rules_notifications_lost", text, own.lost);
        let text = "Alerts that wait to be sent to Alertmanagers";
        all.register("sandur_rules_notifications_queued", text, own.queued);
        let text = "Alerts in the groups of all receivers, with those that ended lately";
        all.register("sandur_rules_grouped_alerts", text, own.grouped);
        let text = "1 while the file of Alertmanagers has an error, so that what held before is used";
        all.register("sandur_rules_alerting_file_broken", text, own.alerting_broken);
        let text = "Tenants with rules that were stored through the API";
        all.register("sandur_rules_stored_tenants", text, own.stored_tenants);
        let text = "Objects of stored rules that are damaged, so that what held before is used";
        all.register("sandur_rules_stored_broken", text, own.stored_broken);
        let text = "Reads of the index of stored rules";
        all.register("sandur_rules_stored_reads", text, own.stored_reads);
        let text = "Changes of stored rules by this process";
        all.register("sandur_rules_stored_changes", text, own.stored_changes);
        self.show_zeros();
    }

    /// Shows the counters of all reasons from the start: a rate does not see that a series begins at 1.
    fn show_zeros(&self) {
        for reason in EvaluationError::REASONS {
            drop(self.failures.get_or_create(&ReasonLabels { reason }));
        }
        for reason in LOST_REASONS {
            drop(self.lost.get_or_create(&ReasonLabels { reason }));
        }
    }

    /// Counts a failed evaluation.
    pub fn failed(&self, reason: &'static str) {
        self.failures.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts alerts that are not sent.
    pub fn lose(&self, reason: &'static str, alerts: u64) {
        if alerts == 0 {
            return;
        }
        self.lost.get_or_create(&ReasonLabels { reason }).inc_by(alerts);
    }

    /// The number of alerts that were lost for a reason.
    pub fn lost(&self, reason: &'static str) -> u64 {
        self.lost.get_or_create(&ReasonLabels { reason }).get()
    }
}
