//! Runs the groups of all files, or the stored groups of a tenant, and follows their changes.
//!
//! **Invariants.** A group that did not change goes on undisturbed. A rule that moved to another place, with
//! the same name and labels, goes on with its alerts and series. Series of a rule that no longer exists get
//! stale markers. When the server stops, nothing is ended: the rules go on after the next start.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use sandur_model::TenantId;
use sandur_runtime::{Shutdown, ShutdownSignal, Task};
use tokio::sync::watch;

use crate::group::{Group, Parts, now};
use crate::output::{self, Written};
use crate::rule::Rule;
use crate::shown::{Display, FileShown, ShownPart};
use crate::sources::{Files, Most, Round, Source};
use crate::spec::GroupSpec;
use crate::stored::StoredRules;

/// How often files are looked at, and how soon again after one changed.
const REFRESH: Duration = Duration::from_secs(10);
const SETTLING: Duration = Duration::from_secs(1);
/// How many rounds a file that changes delays the changes of others.
const UNSETTLED_MAX: u32 = 5;

/// The evaluation of all rules of a process.
pub struct Ruler {
    /// What groups share.
    pub parts: Parts,
    /// Groups that are in no file.
    pub built_in: Vec<GroupSpec>,
    /// The files and folders.
    pub sources: Vec<Source>,
    /// The tenant's rules that were stored through the API, in place of files.
    pub stored: Option<(StoredRules, TenantId)>,
    /// The interval of groups that have none.
    pub interval: Duration,
    /// The most groups and rules.
    pub most: Most,
    /// Where the state is shown.
    pub shown: ShownPart,
}

/// A running group.
struct Running {
    spec: GroupSpec,
    stop: Shutdown,
    task: Task<Group>,
    display: Arc<Display>,
}

type Key = (Arc<str>, String);

/// The state of the loop.
#[derive(Default)]
struct State {
    files: Files,
    stored: Arc<Vec<GroupSpec>>,
    /// Errors about stored rules.
    damage: Vec<FileShown>,
    running: BTreeMap<Key, Running>,
    /// Series of removed rules whose ends could not be stored yet.
    orphans: Written,
    /// Files whose rules were evaluated before; what is new in them has nothing to restore.
    started: HashSet<Arc<str>>,
}

impl Ruler {
    /// Runs until the server stops.
    pub async fn run(self, stopping: ShutdownSignal) {
        let mut state = State::default();
        let mut changes = self.stored.as_ref().map(|(stored, _)| stored.changes());
        let (mut first, mut changed, mut unsettled_rounds) = (true, true, 0);
        loop {
            let round = self.read(&mut state, first).await;
            changed |= round.changed;
            unsettled_rounds = if round.unsettled { unsettled_rounds + 1 } else { 0 };
            // Changes of several files are applied together, so that a rule can move between files. A file
            // that changes all the time does not delay others for long.
            if changed && (unsettled_rounds == 0 || unsettled_rounds > UNSETTLED_MAX) {
                self.apply(&mut state).await;
                changed = false;
            }
            self.end_orphans(&mut state).await;
            first = false;
            let wait = if round.unsettled { SETTLING } else { REFRESH };
            if self.is_over(&state) || self.pause(wait, &mut changes, &stopping).await.is_break() {
                return;
            }
        }
    }

    /// Waits for the next round, which a change of stored rules begins at once. Breaks when the server stops.
    async fn pause(
        &self,
        wait: Duration,
        changes: &mut Option<watch::Receiver<u64>>,
        stopping: &ShutdownSignal,
    ) -> ControlFlow<()> {
        let change = async {
            let is_over = match changes {
                Some(changes) => changes.changed().await.is_err(),
                None => true,
            };
            if is_over {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = stopping.triggered() => ControlFlow::Break(()),
            () = change => ControlFlow::Continue(()),
            () = self.parts.env.sleep(wait) => ControlFlow::Continue(()),
        }
    }

    /// Whether the tenant has no stored rules any more, and nothing is left to do.
    fn is_over(&self, state: &State) -> bool {
        self.stored.is_some()
            && state.running.is_empty()
            && state.orphans.is_empty()
            && state.damage.is_empty()
    }

    async fn read(&self, state: &mut State, first: bool) -> Round {
        if let Some((stored, tenant)) = &self.stored {
            return state.read_stored(stored, tenant);
        }
        let mut files = std::mem::take(&mut state.files);
        let (sources, interval, most) = (self.sources.clone(), self.interval, self.most);
        let before: Vec<_> = files.shown();
        let reading = move || {
            let round = files.read(&sources, interval, most, first);
            (files, round)
        };
        let (files, round) = self.parts.env.run_blocking(reading).await;
        state.files = files;
        let shown = state.files.shown();
        for file in shown.iter().filter(|file| file.error.is_some() && !before.contains(file)) {
            let error = file.error.as_deref().unwrap_or_default();
            tracing::error!(file = file.path, error, "rules are not used; what held before stays");
        }
        round
    }

    /// Makes the running groups those of the files.
    async fn apply(&self, state: &mut State) {
        let mut specs: BTreeMap<Key, GroupSpec> = BTreeMap::new();
        for spec in state.groups().into_iter().chain(self.built_in.iter().cloned()) {
            specs.insert((Arc::clone(&spec.file), spec.name.clone()), spec);
        }
        let changed = |key: &Key, running: &Running| !specs.get(key).is_some_and(|s| s.equals(&running.spec));
        let ended: Vec<Key> = state
            .running
            .iter()
            .filter(|(key, running)| changed(key, running))
            .map(|(key, _)| key.clone())
            .collect();
        let former = stop(state, ended).await;
        specs.retain(|key, _| !state.running.contains_key(key));
        self.start(state, specs, former);
        let displays = state.running.values().map(|running| Arc::clone(&running.display)).collect();
        self.shown.set(displays, state.shown());
    }

    /// Starts groups, which continue the rules of former ones.
    fn start(
        &self,
        state: &mut State,
        specs: BTreeMap<Key, GroupSpec>,
        mut former: BTreeMap<Key, Vec<Rule>>,
    ) {
        let mut groups: Vec<(Key, GroupSpec, Group)> = Vec::new();
        let mut left: Vec<Rule> = Vec::new();
        for (key, spec) in specs {
            let is_restored = state.started.contains(&key.0);
            let mut group = Group::new(spec.clone(), self.parts.clone(), is_restored);
            left.extend(group.adopt(former.remove(&key).unwrap_or_default()));
            groups.push((key, spec, group));
        }
        // Rules that moved to another group or file.
        left.extend(former.into_values().flatten());
        for (_, _, group) in &mut groups {
            left = group.adopt(left);
        }
        let orphans: Written = left.into_iter().flat_map(|rule| rule.written).collect();
        match groups.first_mut() {
            // A new rule of the groups may write the same series.
            Some((_, _, group)) => group.add_orphans(orphans),
            None => state.orphans.extend(orphans),
        }
        for (key, spec, group) in groups {
            let (stop, display) = (Shutdown::default(), Arc::clone(group.display()));
            let task = self.parts.env.spawn("rules", group.run(stop.signal()));
            state.started.insert(Arc::clone(&key.0));
            state.running.insert(key, Running { spec, stop, task, display });
        }
    }

    /// Writes stale markers for series of removed groups; what fails is tried again in the next round.
    async fn end_orphans(&self, state: &mut State) {
        if state.orphans.is_empty() {
            return;
        }
        let at = now(&self.parts.env);
        if let Err(error) = output::end_all(&*self.parts.common.data, at, &mut state.orphans).await {
            tracing::warn!(%error, "series of removed rules could not be ended; trying again");
        }
    }
}

impl State {
    /// Takes the stored rules that hold now.
    fn read_stored(&mut self, stored: &StoredRules, tenant: &TenantId) -> Round {
        let (specs, damage) = (stored.specs(tenant), stored.shown(tenant));
        let changed = !Arc::ptr_eq(&specs, &self.stored) || damage != self.damage;
        (self.stored, self.damage) = (specs, damage);
        Round { changed, unsettled: false }
    }

    fn groups(&self) -> Vec<GroupSpec> {
        let mut groups = self.files.groups();
        groups.extend(self.stored.iter().cloned());
        groups
    }

    fn shown(&self) -> Vec<FileShown> {
        let mut shown = self.files.shown();
        shown.extend(self.damage.iter().cloned());
        shown
    }
}

/// Stops groups. Returns their rules with their states.
async fn stop(state: &mut State, keys: Vec<Key>) -> BTreeMap<Key, Vec<Rule>> {
    let ended: Vec<(Key, Running)> =
        keys.into_iter().filter_map(|key| state.running.remove(&key).map(|running| (key, running))).collect();
    // All are stopped before any is awaited, because an evaluation may take long.
    ended.iter().for_each(|(_, running)| running.stop.trigger());
    let mut former = BTreeMap::new();
    for (key, running) in ended {
        if let Ok(group) = running.task.join().await {
            former.insert(key, group.rules);
        }
    }
    former
}

#[cfg(test)]
#[path = "ruler_tests.rs"]
mod tests;
