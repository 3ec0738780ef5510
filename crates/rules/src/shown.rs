//! The state of rules as it is shown to people: a copy that is made after each evaluation of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_model::TenantId;

use crate::alert::Alert;
use crate::data::Instant;
use crate::metrics::RuleMetrics;
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
    /// The node that evaluates it; `None` if that is not known, or if owners are not recorded.
    pub evaluator: Option<String>,
    /// How many evaluations were missed.
    pub missed: u64,
    /// How many evaluations were made up after a pause.
    pub made_up: u64,
    /// How late the last evaluation began.
    pub late: Duration,
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
        let (took, late) = (Duration::ZERO, Duration::ZERO);
        Self { spec, last_at: None, took, evaluator: None, missed: 0, made_up: 0, late, rules }
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

    /// Shows the node that evaluates the group.
    pub fn set_evaluator(&self, evaluator: Option<String>) {
        let shown = GroupShown { evaluator, ..GroupShown::clone(&self.get()) };
        self.show(shown);
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
    parts: BTreeMap<u64, Part>,
    next: u64,
    notifier: Option<Notifier>,
}

/// The rules of one ruler.
struct Part {
    tenant: TenantId,
    groups: Vec<Arc<Display>>,
    /// Groups that other processes evaluate.
    elsewhere: Vec<Arc<Display>>,
    files: Vec<FileShown>,
}

/// The place where a ruler shows its groups, until it is dropped.
pub struct ShownPart {
    all: RulesShown,
    number: u64,
    metrics: RuleMetrics,
}

impl ShownPart {
    /// Shows other groups and files.
    pub(crate) fn set(&self, groups: Vec<Arc<Display>>, elsewhere: Vec<Arc<Display>>, files: Vec<FileShown>) {
        if let Some(part) = self.all.lock().parts.get_mut(&self.number) {
            (part.groups, part.elsewhere, part.files) = (groups, elsewhere, files);
        }
        self.all.count(&self.metrics);
    }
}

impl Drop for ShownPart {
    fn drop(&mut self) {
        self.all.lock().parts.remove(&self.number);
        self.all.count(&self.metrics);
    }
}

impl RulesShown {
    /// Sets what sends alerts.
    pub fn set_notifier(&self, notifier: Notifier) {
        self.lock().notifier = Some(notifier);
    }

    /// A place for the rules of one ruler, all of which belong to a tenant.
    pub fn part(&self, tenant: TenantId, metrics: RuleMetrics) -> ShownPart {
        let mut shown = self.lock();
        let number = shown.next;
        shown.next += 1;
        shown
            .parts
            .insert(number, Part { tenant, groups: Vec::new(), elsewhere: Vec::new(), files: Vec::new() });
        ShownPart { all: self.clone(), number, metrics }
    }

    /// Counts the groups, rules and broken files of all rulers.
    fn count(&self, metrics: &RuleMetrics) {
        let shown = self.lock();
        let (mut groups, mut rules, mut elsewhere, mut broken) = (0, 0, 0, 0);
        for part in shown.parts.values() {
            groups += part.groups.len();
            elsewhere += part.elsewhere.len();
            rules += part.groups.iter().map(|display| display.get().spec.rules.len()).sum::<usize>();
            broken += part.files.iter().filter(|file| file.error.is_some()).count();
        }
        metrics.groups.set(groups as i64);
        metrics.rules.set(rules as i64);
        metrics.elsewhere.set(elsewhere as i64);
        metrics.broken_files.set(broken as i64);
    }

    /// The Alertmanagers.
    pub fn alertmanagers(&self) -> Vec<AlertmanagerShown> {
        self.lock().notifier.as_ref().map(Notifier::targets).unwrap_or_default()
    }

    /// The tenants with rules in this process.
    pub fn tenants(&self) -> BTreeSet<TenantId> {
        self.lock().parts.values().map(|part| part.tenant.clone()).collect()
    }

    /// The groups of a tenant, sorted by file and name.
    pub fn groups(&self, tenant: &TenantId) -> Vec<Arc<GroupShown>> {
        let displays: Vec<Arc<Display>> = {
            let shown = self.lock();
            let own = shown.parts.values().filter(|part| part.tenant == *tenant);
            own.flat_map(|part| part.groups.iter().chain(&part.elsewhere).cloned()).collect()
        };
        let mut groups: Vec<_> = displays.iter().map(|display| display.get()).collect();
        groups.sort_by(|a, b| (&a.spec.file, &a.spec.name).cmp(&(&b.spec.file, &b.spec.name)));
        groups
    }

    /// The files of a tenant.
    pub fn files(&self, tenant: &TenantId) -> Vec<FileShown> {
        let shown = self.lock();
        let own = shown.parts.values().filter(|part| part.tenant == *tenant);
        own.flat_map(|part| part.files.iter().cloned()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
