//! Runs the groups of all files, or the stored groups of a tenant, and follows their changes.
//!
//! **Invariants.** A group that did not change goes on undisturbed. A rule that moved to another place, with
//! the same name and labels, goes on with its alerts and series. Series of a rule that no longer exists get
//! stale markers. When the server stops, or gives a group up, nothing is ended: the rules go on elsewhere, or
//! after the next start. If owners are recorded, only groups of own shards run ([`crate::shards`]).

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use sandur_model::{RuleShards, TenantId};
use sandur_runtime::{Shutdown, ShutdownSignal, Task};
use tokio::sync::watch;

use crate::data::Data;
use crate::group::{Group, Parts, now};
use crate::notify::Origin;
use crate::output::{self, Written};
use crate::ownership::{Coordination, DataOfTerm, Ownership};
use crate::rule::{Common, Rule};
use crate::running::Start;
use crate::shards::{Duties, Shards, goes_on_elsewhere};
use crate::shown::{Display, ShownPart};
use crate::sources::{Files, Most, Round, Source};
use crate::spec::GroupSpec;
use crate::stored::StoredRules;
use crate::writers::Writers;

/// How often files are looked at, and how soon again after one changed.
const REFRESH: Duration = Duration::from_secs(10);
const SETTLING: Duration = Duration::from_secs(1);
/// How often the owners of shards are looked at. This makes no request.
const LOOK: Duration = Duration::from_secs(1);
/// How many rounds a file that changes delays the changes of others.
const UNSETTLED_MAX: u32 = 5;

/// The evaluation of the rules of files, or of the stored rules of one tenant.
pub struct Ruler {
    /// What groups share.
    pub parts: Parts,
    /// Groups that are in no file.
    pub built_in: Vec<GroupSpec>,
    /// The files and folders.
    pub sources: Vec<Source>,
    /// The rules that were stored through the API, of which those of the tenant are evaluated in place of
    /// files.
    pub stored: Option<StoredRules>,
    /// Whether these rules were stored while this process ran: nobody evaluated them before.
    pub is_new: bool,
    /// The limit of the memory of states, which may change.
    pub state_memory_max: Box<dyn Fn() -> u64 + Send + Sync>,
    /// The interval of groups that have none.
    pub interval: Duration,
    /// The most groups and rules.
    pub most: Most,
    /// Where the state is shown.
    pub shown: ShownPart,
    /// The record of the owners of groups; `None`: this process evaluates all.
    pub ownership: Option<Arc<dyn Ownership>>,
}

/// A running group.
struct Running {
    spec: GroupSpec,
    stop: Shutdown,
    task: Task<Group>,
    display: Arc<Display>,
    /// The shard, if groups are divided among processes.
    shard: Option<u32>,
}

type Key = (Arc<str>, String);

/// The state of the loop.
struct State {
    files: Files,
    stored: Arc<Vec<GroupSpec>>,
    running: BTreeMap<Key, Running>,
    /// Series of removed rules whose ends could not be stored yet.
    orphans: Written,
    /// Files whose rules were evaluated before; what is new in them has nothing to restore.
    started: HashSet<Arc<str>>,
    shards: Shards,
    /// Groups of other processes, and how they are shown.
    elsewhere: Vec<(GroupSpec, Arc<Display>)>,
}

impl Ruler {
    /// Runs until the server stops.
    pub async fn run(self, stopping: ShutdownSignal) {
        let mut state = State::new(self.is_new);
        let mut changes = self.stored.as_ref().map(StoredRules::changes);
        let (mut first, mut changed, mut unsettled_rounds) = (true, true, 0);
        loop {
            self.parts.memory.set_limit((self.state_memory_max)());
            changed |= self.look(&mut state).await;
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
            let pausing = self.pause(&mut state, wait, &mut changes, &stopping);
            if pausing.await.is_break() || self.is_over(&state) {
                return;
            }
        }
    }

    /// Which groups this process evaluates; `None`: all.
    fn coordination(&self) -> Option<Coordination<'_>> {
        let (tenant, are_stored) = (&self.parts.tenant, self.stored.is_some());
        self.ownership.as_ref().map(|ownership| Coordination { ownership, tenant, are_stored })
    }

    /// Waits for the next round, which a change of stored rules begins at once, and looks at the owners of
    /// shards meanwhile. Breaks when the server stops.
    async fn pause(
        &self,
        state: &mut State,
        wait: Duration,
        changes: &mut Option<watch::Receiver<u64>>,
        stopping: &ShutdownSignal,
    ) -> ControlFlow<()> {
        let env = &self.parts.env;
        let until = env.monotonic() + wait;
        while env.monotonic() < until && !self.is_over(state) {
            let rest = until.saturating_sub(env.monotonic());
            let rest = if self.ownership.is_some() { rest.min(LOOK) } else { rest };
            tokio::select! {
                () = stopping.triggered() => return ControlFlow::Break(()),
                () = change_of(changes) => return ControlFlow::Continue(()),
                () = env.sleep(rest) => {}
            }
            if self.look(state).await {
                self.apply(state).await;
            }
        }
        ControlFlow::Continue(())
    }

    /// Whether the tenant has no stored rules any more, and nothing is left to do.
    fn is_over(&self, state: &State) -> bool {
        self.stored.is_some()
            && state.running.is_empty()
            && state.elsewhere.is_empty()
            && state.orphans.is_empty()
    }

    /// Takes shards, gives them up, and drops those that are lost. Returns whether other groups are to run.
    async fn look(&self, state: &mut State) -> bool {
        let Some(of) = self.coordination() else { return false };
        let ownership = &of.ownership;
        let (owners, before) = (ownership.owners(), state.shards.running());
        let have_moved = state.shards.nodes() != owners.nodes;
        let (incarnation, is_recorded) = (owners.incarnation, owners.is_recorded);
        let duties = state.shards.look(owners, ownership.lease().age);
        let Duties { dropped, given_up, owned, is_new_term } = duties;
        if is_new_term {
            // Another process may have continued the rules since.
            state.orphans.clear();
        }
        drop(take_of(state, dropped));
        if is_recorded {
            self.parts.notifier.withdraw(&self.parts.tenant, of.own_kind(dropped));
        }
        if let Some(wanted) = owned {
            let keys = keys_of(state, given_up);
            drop(stop(state, keys).await);
            self.parts.notifier.withdraw(&self.parts.tenant, of.own_kind(given_up));
            state.shards.ended(given_up);
            match ownership.own(incarnation, wanted).await {
                Ok(true) => state.shards.own(wanted),
                Ok(false) => {}
                Err(error) => tracing::warn!(error, "shards of rules could not be taken; trying again"),
            }
        }
        if have_moved {
            let own = state.running.values().map(|running| (&running.spec, &running.display));
            for (spec, display) in state.elsewhere.iter().map(|(spec, display)| (spec, display)).chain(own) {
                self.show_evaluator(state, spec, display);
            }
        }
        // Shards that were dropped and taken again have no groups any more.
        !dropped.is_empty() || state.shards.running() != before
    }

    fn show_evaluator(&self, state: &State, spec: &GroupSpec, display: &Display) {
        let shard = self.coordination().map(|of| of.shard_of(spec));
        display.set_evaluator(shard.and_then(|shard| state.shards.evaluator_of(shard)));
    }

    async fn read(&self, state: &mut State, first: bool) -> Round {
        if let Some(stored) = &self.stored {
            return state.read_stored(stored, &self.parts.tenant);
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
        let elsewhere = self.remove_others(state, &mut specs);
        let changed = |key: &Key, running: &Running| !specs.get(key).is_some_and(|s| s.equals(&running.spec));
        let ended: Vec<Key> = state
            .running
            .iter()
            .filter(|(key, running)| changed(key, running))
            .map(|(key, _)| key.clone())
            .collect();
        let former = stop(state, ended).await;
        self.end_alerts(&former, &specs, &elsewhere);
        specs.retain(|key, _| !state.running.contains_key(key));
        let display = |spec: GroupSpec| (spec.clone(), Arc::new(Display::elsewhere(Arc::new(spec))));
        state.elsewhere = elsewhere.into_iter().map(display).collect();
        self.start(state, specs, former);
        for (spec, display) in &state.elsewhere {
            self.show_evaluator(state, spec, display);
        }
        let own = state.running.values().map(|running| Arc::clone(&running.display)).collect();
        let elsewhere = state.elsewhere.iter().map(|(_, display)| Arc::clone(display)).collect();
        self.shown.set(own, elsewhere, state.files.shown());
    }

    /// Tells receivers that the alerts of groups that exist no more ended.
    fn end_alerts(
        &self,
        former: &BTreeMap<Key, Vec<Rule>>,
        specs: &BTreeMap<Key, GroupSpec>,
        elsewhere: &[GroupSpec],
    ) {
        let Parts { notifier, tenant, .. } = &self.parts;
        let is_elsewhere =
            |(file, name): &Key| elsewhere.iter().any(|spec| spec.file == *file && spec.name == *name);
        for (file, group) in former.keys().filter(|key| !specs.contains_key(*key) && !is_elsewhere(key)) {
            let are_stored = self.stored.is_some();
            notifier.keep(Origin { tenant, are_stored, file, group, shard: None }, &HashSet::new());
        }
    }

    /// Removes the groups of shards that this process does not own.
    fn remove_others(&self, state: &mut State, specs: &mut BTreeMap<Key, GroupSpec>) -> Vec<GroupSpec> {
        let Some(of) = self.coordination() else { return Vec::new() };
        let running = state.shards.running();
        let is_own = |spec: &GroupSpec| running.has(of.shard_of(spec));
        let elsewhere = specs.values().filter(|spec| !is_own(spec)).cloned().collect();
        specs.retain(|_, spec| is_own(spec));
        elsewhere
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
            let is_restored = state.started.contains(&key.0) && self.start_of(state, &spec) == Start::Next;
            let mut group = self.group(state, spec.clone(), is_restored);
            left.extend(group.adopt(former.remove(&key).unwrap_or_default()));
            groups.push((key, spec, group));
        }
        // Rules that moved to another group or file.
        left.extend(former.into_values().flatten());
        for (_, _, group) in &mut groups {
            left = group.adopt(left);
        }
        left.retain(|rule| !state.elsewhere.iter().any(|(spec, _)| goes_on_elsewhere(rule, spec)));
        state.orphans.extend(left.into_iter().flat_map(|rule| rule.written));
        hand_over_orphans(&mut state.orphans, &mut groups);
        for (key, spec, group) in groups {
            let (stop, display) = (Shutdown::default(), Arc::clone(group.display()));
            let shard = self.coordination().map(|of| of.shard_of(&spec));
            let start = self.start_of(state, &spec);
            let task = self.parts.env.spawn("rules", group.run(start, stop.signal()));
            state.started.insert(Arc::clone(&key.0));
            let running = Running { spec, stop, task, display, shard };
            self.show_evaluator(state, &running.spec, &running.display);
            state.running.insert(key, running);
        }
        state.shards.begun();
    }

    /// How a group begins.
    fn start_of(&self, state: &State, spec: &GroupSpec) -> Start {
        let shard = self.coordination().map(|of| of.shard_of(spec));
        state.shards.start_of(shard)
    }

    /// A group, within the term of its shard.
    fn group(&self, state: &State, spec: GroupSpec, is_restored: bool) -> Group {
        let shard = self.coordination().map(|of| of.shard_of(&spec));
        let term = self.coordination().zip(shard);
        let term = term.and_then(|(of, shard)| state.shards.term_of(of, &self.parts.env, shard));
        let mut parts = Parts { are_stored: self.stored.is_some(), ..self.parts.clone() };
        if let Some(term) = &term {
            let data = Arc::new(DataOfTerm { data: Arc::clone(&parts.common.data), term: term.clone() });
            parts.common = Common { data, ..parts.common };
        }
        Group::new(spec, parts, is_restored).within(shard, term)
    }

    /// Writes stale markers for series of removed rules, within a term of this process; what fails is tried
    /// again in the next round.
    async fn end_orphans(&self, state: &mut State) {
        if state.orphans.is_empty() {
            return;
        }
        let data = Arc::clone(&self.parts.common.data);
        let data: Arc<dyn Data> = match self.coordination() {
            Some(of) if state.shards.are_recorded() => {
                let mut own = of.own_kind(state.shards.running()).iter();
                let term = own.next().and_then(|shard| state.shards.term_of(of, &self.parts.env, shard));
                let Some(term) = term else {
                    // The rules are evaluated elsewhere.
                    state.orphans.clear();
                    return;
                };
                Arc::new(DataOfTerm { data, term })
            }
            _ => data,
        };
        if let Err(error) = output::end_all(&*data, now(&self.parts.env), &mut state.orphans).await {
            tracing::warn!(%error, "series of removed rules could not be ended; trying again");
        }
    }
}

impl State {
    /// Nothing runs yet.
    fn new(are_rules_new: bool) -> Self {
        Self {
            files: Files::default(),
            stored: Arc::default(),
            running: BTreeMap::new(),
            orphans: Written::new(),
            started: HashSet::new(),
            shards: Shards::new(are_rules_new),
            elsewhere: Vec::new(),
        }
    }

    /// Takes the stored rules that hold now.
    fn read_stored(&mut self, stored: &StoredRules, tenant: &TenantId) -> Round {
        let specs = stored.specs(tenant);
        let changed = !Arc::ptr_eq(&specs, &self.stored);
        self.stored = specs;
        Round { changed, unsettled: false }
    }

    fn groups(&self) -> Vec<GroupSpec> {
        let mut groups = self.files.groups();
        groups.extend(self.stored.iter().cloned());
        groups
    }
}

/// The running groups of shards.
fn keys_of(state: &State, shards: RuleShards) -> Vec<Key> {
    let is_of = |running: &Running| running.shard.is_some_and(|shard| shards.has(shard));
    state.running.iter().filter(|(_, running)| is_of(running)).map(|(key, _)| key.clone()).collect()
}

/// Takes the running groups of shards out. They end when they are dropped.
fn take_of(state: &mut State, shards: RuleShards) -> Vec<Running> {
    keys_of(state, shards).iter().filter_map(|key| state.running.remove(key)).collect()
}

/// Leaves series of removed rules to the first new group that may write them: it ends those that it does not
/// write.
fn hand_over_orphans(orphans: &mut Written, groups: &mut [(Key, GroupSpec, Group)]) {
    if orphans.is_empty() {
        return;
    }
    let specs = groups.iter().map(|(_, spec, _)| spec).enumerate();
    let writers = Writers::of(specs.flat_map(|(n, spec)| spec.rules.iter().map(move |rule| (n, rule))));
    let mut taken: Vec<Written> = groups.iter().map(|_| Written::new()).collect();
    orphans.retain(|id, labels| {
        let Some(group) = writers.of_series(labels).first().copied() else { return true };
        taken[group].insert(*id, Arc::clone(labels));
        false
    });
    for ((_, _, group), orphans) in groups.iter_mut().zip(taken) {
        group.add_orphans(orphans);
    }
}

/// Waits for a change of the stored rules; without any, for ever.
async fn change_of(changes: &mut Option<watch::Receiver<u64>>) {
    let is_over = match changes {
        Some(changes) => changes.changed().await.is_err(),
        None => true,
    };
    if is_over {
        std::future::pending::<()>().await;
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
