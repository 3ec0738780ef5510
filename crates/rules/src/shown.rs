//! The state of rules as it is shown to people: a copy that is made after each evaluation of a group.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_model::TenantId;

use crate::alert::Alert;
use crate::data::Instant;
use crate::notify::{AlertmanagerShown, Notifier};
use crate::spec::{GroupSpec, RuleSpec};

/// A group after its last evaluation.
#[derive(Clone, Debug)]
pub struct GroupShown {
    /// Its specification.
    pub spec: Arc<GroupSpec>,
    /// When it was evaluated last.
    pub last_at: Option<Instant>,
    /// How long that took.
    pub took: Duration,
    /// How many evaluations were missed.
    pub missed: u64,
    /// Its rules, in order.
    pub rules: Vec<RuleShown>,
}

/// A rule after its last evaluation.
#[derive(Clone, Debug, Default)]
pub struct RuleShown {
    /// When it was evaluated last.
    pub last_at: Option<Instant>,
    /// How long that took.
    pub took: Duration,
    /// Why the last evaluation failed.
    pub last_error: Option<String>,
    /// Its alerts that are pending or firing.
    pub alerts: Vec<Alert>,
}

impl GroupShown {
    /// A group that was not evaluated yet.
    pub fn new(spec: Arc<GroupSpec>) -> Self {
        let rules = spec.rules.iter().map(|_| RuleShown::default()).collect();
        Self { spec, last_at: None, took: Duration::ZERO, missed: 0, rules }
    }

    /// The rules with their specifications.
    pub fn rules(&self) -> impl Iterator<Item = (&RuleSpec, &RuleShown)> {
        self.spec.rules.iter().zip(&self.rules)
    }
}

/// The place where a running group shows its state.
#[derive(Debug)]
pub struct Display(Mutex<Arc<GroupShown>>);

impl Display {
    /// A display of a group that was not evaluated yet.
    pub fn new(spec: Arc<GroupSpec>) -> Self {
        Self(Mutex::new(Arc::new(GroupShown::new(spec))))
    }

    /// Shows a new state.
    pub fn show(&self, shown: GroupShown) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(shown);
    }

    /// The last state.
    pub fn get(&self) -> Arc<GroupShown> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A file of rules, and why its last version is not in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileShown {
    /// The path.
    pub path: String,
    /// The error; `None` if the file is in use as it is.
    pub error: Option<String>,
}

/// The state of all rules of this process. Cheap to clone: a handle.
#[derive(Clone, Default)]
pub struct RulesShown(Arc<Mutex<Shown>>);

#[derive(Default)]
struct Shown {
    groups: Vec<Arc<Display>>,
    files: Vec<FileShown>,
    /// The tenant whose rules are evaluated; `None` if this process evaluates none.
    tenant: Option<TenantId>,
    notifier: Option<Notifier>,
}

impl RulesShown {
    /// Sets the tenant whose rules are evaluated, and what sends its alerts.
    pub fn set_tenant(&self, tenant: TenantId, notifier: Notifier) {
        let mut shown = self.lock();
        (shown.tenant, shown.notifier) = (Some(tenant), Some(notifier));
    }

    /// The Alertmanagers.
    pub fn alertmanagers(&self) -> Vec<AlertmanagerShown> {
        self.lock().notifier.as_ref().map(Notifier::targets).unwrap_or_default()
    }

    /// Shows other groups and files.
    pub(crate) fn set(&self, groups: Vec<Arc<Display>>, files: Vec<FileShown>) {
        let mut shown = self.lock();
        (shown.groups, shown.files) = (groups, files);
    }

    /// The groups of a tenant, sorted by file and name.
    pub fn groups(&self, tenant: &TenantId) -> Vec<Arc<GroupShown>> {
        let displays = {
            let shown = self.lock();
            if shown.tenant.as_ref() != Some(tenant) {
                return Vec::new();
            }
            shown.groups.clone()
        };
        let mut groups: Vec<_> = displays.iter().map(|display| display.get()).collect();
        groups.sort_by(|a, b| (&a.spec.file, &a.spec.name).cmp(&(&b.spec.file, &b.spec.name)));
        groups
    }

    /// The files of a tenant.
    pub fn files(&self, tenant: &TenantId) -> Vec<FileShown> {
        let shown = self.lock();
        if shown.tenant.as_ref() == Some(tenant) { shown.files.clone() } else { Vec::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
