//! The state of rules as it is shown to people: a copy that is made after each evaluation of a group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::{Labels, TenantId};

use crate::alert::{Alert, State};
use crate::data::Instant;
use crate::metrics::RuleMetrics;
use crate::notify::{AlertmanagerShown, Notifier, ReceiverShown};
use crate::spec::{GroupSpec, RuleSpec};

/// The part of the memory of queries that states of other processes may use: an eighth.
const MEMORY_PART: u64 = 8;

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
    /// Whether another process evaluates it: its states are not known here.
    pub is_elsewhere: bool,
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
    /// The highest state of alerts that are not in the list; `None` if it is complete.
    pub unlisted: Option<State>,
}

impl RuleShown {
    /// The highest state of its alerts.
    pub fn state(&self) -> State {
        let listed = self.alerts.iter().map(|alert| alert.state);
        listed.chain(self.unlisted).max().unwrap_or(State::Inactive)
    }
}

impl GroupShown {
    /// A group that was not evaluated yet.
    pub fn new(spec: Arc<GroupSpec>) -> Self {
        let rules = spec.rules.iter().map(|_| RuleShown::default()).collect();
        let (took, late, is_elsewhere) = (Duration::ZERO, Duration::ZERO, false);
        Self { spec, last_at: None, took, evaluator: None, is_elsewhere, missed: 0, made_up: 0, late, rules }
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

    /// A display of a group that another process evaluates.
    pub fn elsewhere(spec: Arc<GroupSpec>) -> Self {
        Self(Mutex::new(Arc::new(GroupShown { is_elsewhere: true, ..GroupShown::new(spec) })))
    }

    /// Shows the node that evaluates the group.
    pub fn set_evaluator(&self, evaluator: Option<String>) {
        let mut now = self.lock();
        if now.evaluator != evaluator {
            *now = Arc::new(GroupShown { evaluator, ..GroupShown::clone(&now) });
        }
    }

    /// Shows a new state, and leaves the node as it is.
    pub fn show(&self, shown: GroupShown) {
        let mut now = self.lock();
        *now = Arc::new(GroupShown { evaluator: now.evaluator.clone(), ..shown });
    }

    /// The last state.
    pub fn get(&self) -> Arc<GroupShown> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Arc<GroupShown>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An alert as it is sent.
#[derive(Clone, Debug)]
pub struct AlertShown {
    /// Its labels with external ones.
    pub labels: Labels,
    /// The alert.
    pub alert: Alert,
    /// A link to its expression.
    pub link: Arc<str>,
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
    /// Of all rulers.
    counts: Counts,
    memory_for_others: Option<MemoryBudget>,
}

/// The rules of one ruler.
struct Part {
    tenant: TenantId,
    groups: Vec<Arc<Display>>,
    /// Groups that other processes evaluate.
    elsewhere: Vec<Arc<Display>>,
    files: Vec<FileShown>,
    counts: Counts,
}

/// What is counted of one ruler, or of all.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    groups: i64,
    rules: i64,
    elsewhere: i64,
    broken_files: i64,
}

impl Counts {
    /// The counts of all after those of one ruler changed.
    fn with(self, before: Self, now: Self) -> Self {
        Self {
            groups: self.groups - before.groups + now.groups,
            rules: self.rules - before.rules + now.rules,
            elsewhere: self.elsewhere - before.elsewhere + now.elsewhere,
            broken_files: self.broken_files - before.broken_files + now.broken_files,
        }
    }

    fn show(self, metrics: &RuleMetrics) {
        metrics.groups.set(self.groups);
        metrics.rules.set(self.rules);
        metrics.elsewhere.set(self.elsewhere);
        metrics.broken_files.set(self.broken_files);
    }
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
        let counts = Counts {
            groups: groups.len() as i64,
            rules: groups.iter().map(|display| display.get().spec.rules.len() as i64).sum(),
            elsewhere: elsewhere.len() as i64,
            broken_files: files.iter().filter(|file| file.error.is_some()).count() as i64,
        };
        let mut all = self.all.lock();
        let Some(part) = all.parts.get_mut(&self.number) else { return };
        (part.groups, part.elsewhere, part.files) = (groups, elsewhere, files);
        let before = std::mem::replace(&mut part.counts, counts);
        all.counts = all.counts.with(before, counts);
        all.counts.show(&self.metrics);
    }
}

impl Drop for ShownPart {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        let before = all.parts.remove(&self.number).map_or(Counts::default(), |part| part.counts);
        all.counts = all.counts.with(before, Counts::default());
        all.counts.show(&self.metrics);
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
        let (groups, elsewhere, files) = (Vec::new(), Vec::new(), Vec::new());
        let part = Part { tenant, groups, elsewhere, files, counts: Counts::default() };
        shown.parts.insert(number, part);
        ShownPart { all: self.clone(), number, metrics }
    }

    /// The memory of states that other processes send, for all requests together: a part of that of queries,
    /// which requests about rules must not use up.
    pub fn memory_for_others(&self, of_queries: &MemoryBudget) -> MemoryBudget {
        let part =
            || of_queries.child("states of rules of other processes", of_queries.limit() / MEMORY_PART);
        self.lock().memory_for_others.get_or_insert_with(part).clone()
    }

    /// The Alertmanagers.
    pub fn alertmanagers(&self) -> Vec<AlertmanagerShown> {
        self.lock().notifier.as_ref().map(Notifier::targets).unwrap_or_default()
    }

    /// The receivers of groups of alerts.
    pub fn receivers(&self) -> Vec<ReceiverShown> {
        self.lock().notifier.as_ref().map(Notifier::receivers).unwrap_or_default()
    }

    /// The alerts of groups that fire, as they are sent.
    pub fn firing(&self, groups: &[Arc<GroupShown>]) -> Vec<AlertShown> {
        let Some(notifier) = self.lock().notifier.clone() else { return Vec::new() };
        let mut found = Vec::new();
        for group in groups {
            for (spec, shown) in group.rules() {
                let link = notifier.link_of(spec.expression());
                for alert in shown.alerts.iter().filter(|alert| alert.state == State::Firing) {
                    let Some(labels) = notifier.labels_of(alert) else { continue };
                    found.push(AlertShown { labels, alert: alert.clone(), link: Arc::clone(&link) });
                }
            }
        }
        found
    }

    /// The tenants with rules in this process.
    pub fn tenants(&self) -> BTreeSet<TenantId> {
        self.lock().parts.values().map(|part| part.tenant.clone()).collect()
    }

    /// The groups of a tenant that this process evaluates.
    pub fn own_groups(&self, tenant: &TenantId) -> Vec<Arc<GroupShown>> {
        let shown = self.lock();
        let own = shown.parts.values().filter(|part| part.tenant == *tenant);
        own.flat_map(|part| part.groups.iter().map(|display| display.get())).collect()
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

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
