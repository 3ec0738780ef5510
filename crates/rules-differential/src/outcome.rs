//! What the events of a case did, in a form that both sides have.

use serde::Deserialize;

use crate::case::{Series, Texts};

/// The state of an alert. Times are nanoseconds since the epoch, 0 if there is none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Alert {
    /// The labels.
    pub labels: Texts,
    /// The annotations.
    pub annotations: Texts,
    /// `pending`, `firing` or `inactive`.
    pub state: String,
    /// The bits of the value.
    pub value: String,
    /// When it became pending.
    pub active_at: i64,
    /// When it fired.
    pub fired_at: i64,
    /// When it became inactive.
    pub resolved_at: i64,
    /// When its series ended, while `keep_firing_for` lets it fire.
    pub keep_firing_since: i64,
    /// When it was sent last.
    pub last_sent_at: i64,
    /// Until when receivers may regard it as firing.
    pub valid_until: i64,
}

/// The state of a rule after an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Rule {
    /// Why the evaluation failed; empty if it succeeded.
    pub error: String,
    /// The alerts, also inactive ones.
    pub alerts: Vec<Alert>,
}

/// An alert as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Sent {
    /// The labels, without external ones.
    pub labels: Texts,
    /// The annotations.
    pub annotations: Texts,
    /// When it began.
    pub starts_at: i64,
    /// When it ended, or will be regarded as ended.
    pub ends_at: i64,
    /// The link to the expression.
    pub url: String,
}

/// What an evaluation did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Step {
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// The alerts that were sent.
    pub sent: Vec<Sent>,
}

/// What a case did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Outcome {
    /// Why the case could not be evaluated; empty if it could.
    pub failure: String,
    /// The evaluations.
    pub steps: Vec<Step>,
    /// The series that rules wrote.
    pub series: Vec<Series>,
}
