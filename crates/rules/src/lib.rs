//! Recording and alerting rules, as in Prometheus and Loki.
//!
//! **What it is.** Rule files ([`file`]) with expressions in PromQL, LogQL and
//! Graphite's language, templates ([`template`]), the
//! states of alerts ([`alert`]), the evaluation of groups ([`Group`]), and notifications of Alertmanagers,
//! webhooks and mailboxes ([`Notifier`]) with silences ([`silence`]). A [`Ruler`] runs the groups of files,
//! or the stored groups of one tenant, and follows their changes; [`Rulers`] has one for each tenant with
//! stored rules ([`stored`]). [`RulesShown`] has the states for people and for the API; [`AskingRulers`] adds
//! those of groups that other processes evaluate.
//!
//! **What it is not.** It has no HTTP: queries and writes go through `sandur_service` ([`Served`]), and
//! messages to others through the trait [`Post`]. It does not know the catalog: which process
//! evaluates a group is asked through the trait [`Ownership`].
//!
//! **Life of an evaluation.** A [`Group`] wakes at a time of its schedule. For each rule, in order, or side
//! by side where rules are independent, it runs the expression at that time. A recording rule renames the
//! series of the answer. An alerting rule expands the templates of labels and annotations for each series,
//! and updates the states of its alerts. The resulting samples are stored with stale markers for series that
//! ended, so that the next rule sees them. Alerts that fire or ended are queued for
//! the Alertmanagers, and added to the groups of webhooks and mailboxes.
//!
//! **Invariants.** An evaluation that fails, or whose answer may be incomplete, changes no state and writes
//! nothing. Series of a rule, output and queries of templates, queues and memory are bounded. Time and tasks
//! come from `sandur_runtime`, so that a simulated clock repeats a course exactly.

pub mod alert;
mod catch_up;
mod continuing;
pub mod data;
mod error;
mod everywhere;
mod expression;
mod external;
pub mod file;
mod group;
mod independence;
pub mod memory_data;
mod metrics;
mod notify;
mod output;
#[cfg(test)]
mod owners_tests;
mod ownership;
pub mod replay;
mod restore;
mod rule;
mod ruler;
mod rulers;
mod running;
mod schedule;
mod served;
mod shards;
mod shared_ownership;
mod shown;
pub mod silence;
mod sources;
mod spec;
pub mod stored;
pub mod template;
pub mod unit_tests;
mod unsent;
mod writers;

pub use catch_up::CATCH_UP_MAX;
pub use error::EvaluationError;
pub use everywhere::{
    ANSWER_BYTES_MAX, AnsweredStates, AskedStates, AskingRulers, GroupStates, ListedStates, OtherRulers,
    StatesEverywhere,
};
pub use external::External;
pub use group::{EVALUATIONS_MAX, Group, Parts};
pub use metrics::RuleMetrics;
pub use notify::{
    Address, AlertingFile, AlertmanagerShown, Grouping, Mail, Message, NotSent, Notifier, NotifierParts,
    Outcome, Post, QUEUED_MAX, ReceiverShown, host_of,
};
pub use ownership::{ConfirmedPost, LEASE, Lease, Owners, Ownership};
pub use restore::Tolerance;
pub use rule::Common;
pub use ruler::Ruler;
pub use rulers::Rulers;
pub use served::{Served, graphite_labels};
pub use shared_ownership::SharedOwnership;
pub use shown::{AlertShown, FileShown, GroupShown, RuleShown, RulesShown, ShownPart};
pub use sources::{Most, Source, check as check_files, list as list_files, read_file};
pub use spec::{Expression, GroupSpec, Language, Pairs, RuleKind, RuleSpec};
