//! The states of a tenant's groups in all processes of a store.
//!
//! The process that is asked knows which node evaluates each group. It asks these nodes for the states of
//! the groups that it does not evaluate itself ([`OtherRulers`]), all at the same time. If it evaluates all
//! groups itself, it asks nobody.
//!
//! **Bounds.** At most [`PROCESSES_MAX`] processes are asked. The memory of their answers is reserved first
//! ([`SMALL`]). Processes that had no room for all alerts are asked once more for a larger answer
//! ([`LARGE`]), if there is memory for it. What is still left out is counted in a warning.
//!
//! **Invariants.** States are shown only for the specification that they belong to: the owner sends a hash of
//! it. A group whose states are not known is shown without any, and a warning says why.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sandur_base::BoxFuture;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::TenantId;
use sandur_service::{AnswerRoom, NO_MEMORY, OtherProcesses, PROCESSES_MAX, ProcessName};

use crate::data::Instant;
use crate::shown::{GroupShown, RuleShown};

/// The memory of first answers: 1 MiB has about a thousand alerts. The factor: the message, and the states
/// that are decoded from it.
const SMALL: AnswerRoom = AnswerRoom { all: 8 << 20, least: 64 << 10, most: 1 << 20, factor: 2 };
/// The memory of second answers.
const LARGE: AnswerRoom = AnswerRoom { all: 64 << 20, least: 64 << 10, most: ANSWER_BYTES_MAX, factor: 2 };
/// Maximum size of an answer.
pub const ANSWER_BYTES_MAX: u64 = 32 << 20;

/// The other processes of the store, and calls for the states of the rules that they evaluate.
pub trait OtherRulers: OtherProcesses {
    /// The states of the groups that a process evaluates. The error says why there is no answer.
    fn states<'a>(&'a self, process: &'a ProcessName, asked: AskedStates<'a>) -> AnsweredStates<'a>;
}

/// The answer of a process, or why there is none.
pub type AnsweredStates<'a> = BoxFuture<'a, Result<ListedStates, String>>;

/// What a process is asked for.
#[derive(Clone, Copy, Debug)]
pub struct AskedStates<'a> {
    /// Only groups of this tenant.
    pub tenant: &'a TenantId,
    /// The fingerprints of the groups that are wanted; others may be in the answer.
    pub groups: &'a [u128],
    /// Whether alerts are only counted.
    pub without_alerts: bool,
    /// Maximum bytes of the message, and of the states that are decoded from it.
    pub most_bytes: u64,
}

/// States of groups that a process evaluates.
#[derive(Clone, Debug, Default)]
pub struct ListedStates {
    /// The groups.
    pub groups: Vec<GroupStates>,
    /// Groups for which there was no room.
    pub groups_left_out: u64,
    /// Alerts of these groups for which there was no room.
    pub alerts_left_out: u64,
    /// The memory of the states.
    pub bytes: u64,
}

/// The states of a group.
#[derive(Clone, Debug, Default)]
pub struct GroupStates {
    /// The file.
    pub file: String,
    /// The name.
    pub name: String,
    /// The hash of the specification that the process has.
    pub fingerprint: u128,
    /// When it was evaluated last.
    pub last_at: Option<Instant>,
    /// How long that took.
    pub took: Duration,
    /// How many evaluations were missed.
    pub missed: u64,
    /// How many evaluations were made up.
    pub made_up: u64,
    /// How late the last evaluation began.
    pub late: Duration,
    /// Its rules, in order.
    pub rules: Vec<RuleShown>,
}

/// Groups with the states that are known in all processes.
pub struct StatesEverywhere {
    /// The groups, in the order in which they were given.
    pub groups: Vec<Arc<GroupShown>>,
    /// Which states are missing, and why.
    pub warnings: Vec<String>,
    /// The memory of the states of other processes.
    pub memory: Reservation,
}

/// A request for states.
#[derive(Clone, Copy)]
pub struct AskingRulers<'a> {
    /// The other processes.
    pub rulers: &'a dyn OtherRulers,
    /// The memory of their answers.
    pub budget: &'a MemoryBudget,
    /// The tenant of the groups.
    pub tenant: &'a TenantId,
    /// Whether alerts are not wanted.
    pub without_alerts: bool,
}

/// A process that is asked.
struct Asked {
    process: ProcessName,
    /// The positions of the groups that it evaluates, and their fingerprints.
    groups: Vec<usize>,
    fingerprints: Vec<u128>,
}

impl AskingRulers<'_> {
    /// Adds the states of groups that other processes evaluate.
    pub async fn complete(self, mut groups: Vec<Arc<GroupShown>>) -> StatesEverywhere {
        let mut memory = self.budget.empty();
        let mut warnings = Vec::new();
        let mut asked = self.asked(&groups, &mut warnings);
        if asked.is_empty() {
            return StatesEverywhere { groups, warnings, memory };
        }
        let Some(most_bytes) = SMALL.reserve(&mut memory, asked.len() as u64) else {
            warnings.extend(asked.drain(..).map(|one| unknown(&one, NO_MEMORY)));
            return StatesEverywhere { groups, warnings, memory };
        };
        let all: Vec<&Asked> = asked.iter().collect();
        let mut answers = self.call(&all, most_bytes).await;
        memory.shrink(memory.bytes().saturating_sub(bytes_of(&answers)));
        self.call_again(&asked, (&mut answers, most_bytes), &mut memory).await;
        for (one, answer) in asked.iter().zip(answers) {
            match answer {
                Ok(list) => self.merge(one, list, (&mut groups, &mut warnings)),
                Err(reason) => warnings.push(unknown(one, &reason)),
            }
        }
        StatesEverywhere { groups, warnings, memory }
    }

    /// The processes that evaluate groups. Groups of which the process is not known are counted in warnings.
    fn asked(&self, groups: &[Arc<GroupShown>], warnings: &mut Vec<String>) -> Vec<Asked> {
        let mut nodes: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
        for (n, group) in groups.iter().enumerate().filter(|(_, group)| group.is_elsewhere) {
            nodes.entry(group.evaluator.as_deref()).or_default().push(n);
        }
        if nodes.is_empty() {
            return Vec::new();
        }
        let own = self.rulers.own().node;
        // Of several processes of a node the newest is the last one.
        let others = self.rulers.others().into_iter().map(|process| (process.node.clone(), process));
        let mut others: HashMap<String, ProcessName> = others.collect();
        let mut asked = Vec::new();
        for (node, of_node) in nodes {
            let number = counted(of_node.len() as u64, "group");
            let Some(node) = node else {
                warnings.push(format!("no process evaluates {number} now"));
                continue;
            };
            let reason = match others.remove(node) {
                Some(process) if asked.len() < PROCESSES_MAX => {
                    let fingerprints = of_node.iter().map(|n| groups[*n].spec.fingerprint()).collect();
                    asked.push(Asked { process, groups: of_node, fingerprints });
                    continue;
                }
                Some(_) => format!("at most {PROCESSES_MAX} processes are asked"),
                None if node == own => "this process has not begun to evaluate them".to_owned(),
                None => "no process of it is known to run".to_owned(),
            };
            warnings.push(format!("states of {number} of the node {node} are not known: {reason}"));
        }
        asked
    }

    async fn call(&self, asked: &[&Asked], most_bytes: u64) -> Vec<Result<ListedStates, String>> {
        let calls = asked.iter().map(|one| {
            let (groups, without_alerts) = (&*one.fingerprints, self.without_alerts);
            let asked = AskedStates { tenant: self.tenant, groups, without_alerts, most_bytes };
            self.rulers.states(&one.process, asked)
        });
        join_all(calls).await
    }

    /// Asks processes that left something out for larger answers, if there is memory for them.
    async fn call_again(
        &self,
        asked: &[Asked],
        (answers, most_bytes): (&mut [Result<ListedStates, String>], u64),
        memory: &mut Reservation,
    ) {
        let has_more = |list: &ListedStates| list.groups_left_out > 0 || list.alerts_left_out > 0;
        let again: Vec<usize> =
            (0..asked.len()).filter(|n| answers[*n].as_ref().is_ok_and(has_more)).collect();
        if again.is_empty() {
            return;
        }
        let mut larger = self.budget.empty();
        let room = LARGE.reserve(&mut larger, again.len() as u64);
        let Some(most_bytes) = room.filter(|room| *room > most_bytes) else { return };
        let processes: Vec<&Asked> = again.iter().map(|n| &asked[*n]).collect();
        let second = self.call(&processes, most_bytes).await;
        for (n, answer) in again.into_iter().zip(second) {
            // If there is no second answer, the first one is still right.
            if answer.is_ok() {
                answers[n] = answer;
            }
        }
        memory.absorb(larger);
        memory.shrink(memory.bytes().saturating_sub(bytes_of(answers)));
    }

    /// Shows the states of a list in the groups that they belong to.
    fn merge(
        &self,
        asked: &Asked,
        list: ListedStates,
        (groups, warnings): (&mut [Arc<GroupShown>], &mut Vec<String>),
    ) {
        let node = &asked.process.node;
        let of = |group: GroupStates| ((group.fingerprint, group.file.clone(), group.name.clone()), group);
        let mut states: HashMap<(u128, String, String), GroupStates> =
            list.groups.into_iter().map(of).collect();
        let mut missing = 0u64;
        for (n, fingerprint) in asked.groups.iter().zip(&asked.fingerprints) {
            let group = &groups[*n];
            let key = (*fingerprint, group.spec.file.to_string(), group.spec.name.clone());
            match states.remove(&key).and_then(|states| with_states(group, states)) {
                Some(shown) => groups[*n] = Arc::new(shown),
                None => missing += 1,
            }
        }
        let left_out = list.groups_left_out.min(missing);
        let missing = missing - left_out;
        if missing > 0 {
            let number = counted(missing, "group");
            warnings.push(format!(
                "states of {number} of the node {node} are not known: it does not evaluate them now, or has \
                 other rules for them"
            ));
        }
        let alerts_left_out = if self.without_alerts { 0 } else { list.alerts_left_out };
        let left_out = [(left_out, "group"), (alerts_left_out, "alert")].into_iter().filter(|(n, _)| *n > 0);
        let left_out: Vec<String> = left_out.map(|(number, noun)| counted(number, noun)).collect();
        if !left_out.is_empty() {
            let left_out = left_out.join(" and ");
            warnings.push(format!("{left_out} of the node {node} left out: there was no room in its answer"));
        }
    }
}

/// A group with the states that another process sent; `None` if they do not fit its rules.
fn with_states(group: &GroupShown, states: GroupStates) -> Option<GroupShown> {
    let GroupStates { last_at, took, missed, made_up, late, mut rules, .. } = states;
    if rules.len() != group.spec.rules.len() {
        return None;
    }
    for (spec, shown) in group.spec.rules.iter().zip(&mut rules) {
        if !spec.is_alerting() {
            (shown.alerts, shown.unlisted) = (Vec::new(), None);
        }
    }
    let (spec, evaluator) = (Arc::clone(&group.spec), group.evaluator.clone());
    Some(GroupShown { spec, last_at, took, evaluator, is_elsewhere: true, missed, made_up, late, rules })
}

fn unknown(asked: &Asked, reason: &str) -> String {
    let number = counted(asked.groups.len() as u64, "group");
    format!("states of {number} of the node {} are not known: {reason}", asked.process.node)
}

fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

fn bytes_of(answers: &[Result<ListedStates, String>]) -> u64 {
    answers.iter().flatten().fold(0, |sum, list| sum.saturating_add(list.bytes))
}

#[cfg(test)]
#[path = "everywhere_tests.rs"]
mod tests;
