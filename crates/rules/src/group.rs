//! A group: evaluates its rules on its schedule.
//!
//! **Invariants.** A rule sees what the rules before it wrote at the same evaluation; independent rules are
//! evaluated side by side. After a start, the
//! alerts of before are restored after the second successful evaluation, as in Prometheus: in the first one,
//! targets may not have been scraped and recording rules may not have written yet.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use sandur_memory::MemoryBudget;
use sandur_model::{StreamId, TenantId};
use sandur_runtime::{Env, ShutdownSignal};
use tokio::sync::Semaphore;

use crate::alert::{Resend, State};
use crate::catch_up::Pace;
use crate::data::Instant;
use crate::error::EvaluationError;
use crate::independence::waves;
use crate::metrics::RuleMetrics;
use crate::notify::{Notifier, Origin};
use crate::output::{self, Written};
use crate::ownership::{Standing, Term};
use crate::rule::{Common, Occasion, Rule};
use crate::shown::{Display, GroupShown, RuleShown};
use crate::spec::{GroupSpec, Identity};

/// The successful evaluations of a rule that precede the restoring of its alerts.
const BEFORE_RESTORING: u64 = 2;

/// The most rules of a group that are evaluated at the same time.
const SIDE_BY_SIDE: usize = 16;

/// The most rules of all groups that are evaluated at the same time.
pub const EVALUATIONS_MAX: usize = 64;

/// The parts that groups share.
#[derive(Clone)]
pub struct Parts {
    /// Clock and tasks.
    pub env: Env,
    /// The tenant of the rules.
    pub tenant: TenantId,
    /// Whether the rules were stored through the API.
    pub are_stored: bool,
    /// What rules have in common.
    pub common: Common,
    /// Sends alerts.
    pub notifier: Notifier,
    /// The least time between two notifications about one alert.
    pub resend_delay: Duration,
    /// Memory of what rules keep between evaluations.
    pub memory: MemoryBudget,
    /// Counters.
    pub metrics: RuleMetrics,
    /// Turns of evaluations: when there are too many, groups are late, and their queries are not refused.
    pub turns: Arc<Semaphore>,
}

/// A group with the state of its rules.
pub struct Group {
    pub(crate) spec: Arc<GroupSpec>,
    /// The rules, in order.
    pub rules: Vec<Rule>,
    /// The numbers of the rules, in waves of independent ones.
    waves: Vec<Vec<usize>>,
    /// Series of rules that no longer exist; they get stale markers at the next evaluation.
    orphans: Written,
    pub(crate) parts: Parts,
    display: Arc<Display>,
    /// The term in which the group is evaluated; `None` if owners are not recorded.
    pub(crate) term: Option<Term>,
    /// The shard, if groups are divided among processes.
    shard: Option<u32>,
    pub(crate) pace: Pace,
    /// How many evaluations were left out, and how many were made up.
    pub(crate) missed: u64,
    made_up: u64,
    /// How long the last evaluation took, and how late it began.
    pub(crate) took: Duration,
    pub(crate) late: Duration,
    /// Whether the next evaluation is already due.
    pub(crate) is_made_up: bool,
    /// Since when, by the monotonic clock, evaluations are made up.
    pub(crate) making_up_since: Option<Duration>,
}

impl Group {
    /// A group without state. `is_restored` says that nothing is to be restored.
    pub fn new(spec: GroupSpec, parts: Parts, is_restored: bool) -> Self {
        let spec = Arc::new(spec);
        let empty = || parts.memory.empty();
        let rules = spec.rules.iter().map(|rule| Rule::new(rule.clone(), empty(), is_restored)).collect();
        let display = Arc::new(Display::new(Arc::clone(&spec)));
        let waves = waves(&spec.rules);
        Self {
            spec,
            rules,
            waves,
            orphans: Written::new(),
            parts,
            display,
            term: None,
            shard: None,
            pace: Pace::default(),
            missed: 0,
            made_up: 0,
            took: Duration::ZERO,
            late: Duration::ZERO,
            is_made_up: false,
            making_up_since: None,
        }
    }

    /// The group in a shard, within a term.
    pub fn within(self, shard: Option<u32>, term: Option<Term>) -> Self {
        Self { term, shard, ..self }
    }

    /// The place where the group shows its state.
    pub fn display(&self) -> &Arc<Display> {
        &self.display
    }

    /// Continues rules of `former` that have the same kind, name and labels, each once. Those that are left
    /// are returned.
    pub fn adopt(&mut self, former: Vec<Rule>) -> Vec<Rule> {
        let mut left: HashMap<Identity, VecDeque<Rule>> = HashMap::new();
        for rule in former {
            left.entry(rule.spec.identity()).or_default().push_back(rule);
        }
        for rule in self.rules.iter_mut().filter(|rule| !rule.is_continued) {
            let old = left.get_mut(&rule.spec.identity()).and_then(VecDeque::pop_front);
            old.into_iter().for_each(|old| rule.continue_from(old));
        }
        self.show(None);
        left.into_values().flatten().collect()
    }

    /// Adds series that get stale markers at the next evaluation, unless a rule of this group writes them.
    pub fn add_orphans(&mut self, orphans: Written) {
        self.orphans.extend(orphans);
    }

    /// Evaluates all rules.
    pub async fn evaluate(&mut self, at: Instant, stop: &ShutdownSignal) {
        let began = self.parts.env.monotonic();
        for wave in 0..self.waves.len() {
            if stop.is_triggered() {
                return;
            }
            self.evaluate_wave(wave, at).await;
        }
        self.end_orphans(at).await;
        self.restore().await;
        self.end_alerts(at);
        self.took = self.parts.env.monotonic().saturating_sub(began);
        self.parts.metrics.group_seconds.observe(self.took.as_secs_f64());
        if self.is_made_up {
            self.made_up += 1;
            self.parts.metrics.made_up.inc();
        }
        self.show(Some(at));
    }

    /// The time of the notifications after an evaluation; `None` if it sends nothing. What is made up sends
    /// nothing for a while, because the next evaluation may end what this one began.
    fn sent_at(&self, at: Instant) -> Option<Instant> {
        let now_monotonic = self.parts.env.monotonic();
        match self.making_up_since {
            None => Some(at),
            Some(since) if now_monotonic.saturating_sub(since) < self.parts.resend_delay => None,
            Some(_) => Some(now(&self.parts.env)),
        }
    }

    /// Evaluates independent rules.
    async fn evaluate_wave(&mut self, wave: usize, at: Instant) {
        let mut slots: Vec<Option<Rule>> = std::mem::take(&mut self.rules).into_iter().map(Some).collect();
        let (spec, parts) = (&self.spec, &self.parts);
        let sending = Sending { term: self.term.as_ref(), shard: self.shard, at: self.sent_at(at) };
        let taken: Vec<(usize, Rule)> =
            self.waves[wave].iter().filter_map(|number| Some((*number, slots[*number].take()?))).collect();
        let evaluations = taken.into_iter().map(|(number, mut rule)| async move {
            evaluate_rule((spec, parts), &mut rule, sending, at).await;
            (number, rule)
        });
        let mut running = futures_util::stream::iter(evaluations).buffer_unordered(SIDE_BY_SIDE);
        while let Some((number, rule)) = running.next().await {
            slots[number] = Some(rule);
        }
        drop(running);
        self.rules = slots.into_iter().flatten().collect();
    }

    /// Writes stale markers for series of rules that no longer exist, at the time of the other samples.
    async fn end_orphans(&mut self, at: Instant) {
        if self.orphans.is_empty() {
            return;
        }
        let Self { spec, rules, orphans, parts, .. } = self;
        let at = at.minus(spec.query_offset);
        orphans.retain(|id, _| !rules.iter().any(|rule| rule.written.contains_key(id)));
        if let Err(error) = output::end_all(&*parts.common.data, at, orphans).await {
            let group = &spec.name;
            tracing::warn!(group, %error, "series of removed rules could not be ended; trying again");
        }
    }

    async fn restore(&mut self) {
        let Self { rules, parts, spec, .. } = self;
        for rule in rules.iter_mut().filter(|rule| rule.successes >= BEFORE_RESTORING) {
            if let Err(error) = rule.restore(&parts.common, now(&parts.env)).await {
                let (group, rule) = (&spec.name, &rule.spec.name);
                tracing::warn!(group, rule, %error, "alerts could not be restored; trying again");
            }
        }
    }

    /// Tells receivers of groups which alerts the rules have.
    fn end_alerts(&self, at: Instant) {
        let notifier = &self.parts.notifier;
        let is_own = self.term.as_ref().is_none_or(|term| term.standing() == Standing::Held);
        if notifier.has_receivers() && is_own && self.sent_at(at).is_some() {
            let alive: HashSet<StreamId> = self.rules.iter().flat_map(|rule| rule.alerts.ids()).collect();
            notifier.keep(origin_of(&self.parts, &self.spec, self.shard), &alive);
        }
    }

    fn show(&self, at: Option<Instant>) {
        let of_rule = |rule: &Rule| RuleShown {
            last_at: rule.last_at,
            took: rule.took,
            last_error: rule.last_error.clone(),
            alerts: rule.alerts.iter().filter(|alert| alert.state != State::Inactive).cloned().collect(),
            unlisted: None,
        };
        let rules = self.rules.iter().map(of_rule).collect();
        let spec = Arc::clone(&self.spec);
        let Self { took, missed, made_up, late, .. } = *self;
        let shown = GroupShown { last_at: at, took, missed, made_up, late, rules, ..GroupShown::new(spec) };
        self.display.show(shown);
    }
}

/// Whether alerts are sent after an evaluation.
#[derive(Clone, Copy)]
struct Sending<'a> {
    term: Option<&'a Term>,
    shard: Option<u32>,
    /// The time of the notifications; `None` if nothing is sent.
    at: Option<Instant>,
}

impl Sending<'_> {
    /// The time at which alerts are sent after an evaluation whose samples could be stored or not.
    async fn allowed_at(self, is_stored: bool) -> Option<Instant> {
        let at = self.at?;
        let standing = match self.term {
            None => return Some(at),
            Some(term) if is_stored => term.confirm().await,
            // The WAL may refuse samples because the term has ended a moment ago.
            Some(term) => term.confirm_anew().await,
        };
        (standing == Standing::Held).then_some(at)
    }
}

async fn evaluate_rule(
    (spec, parts): (&GroupSpec, &Parts),
    rule: &mut Rule,
    sending: Sending<'_>,
    at: Instant,
) {
    // The semaphore is never closed.
    let _turn = parts.turns.acquire().await;
    let began = parts.env.monotonic();
    let occasion = Occasion { at, offset: spec.query_offset, limit: spec.limit };
    let outcome = rule.evaluate(&parts.common, occasion).await;
    rule.took = parts.env.monotonic().saturating_sub(began);
    rule.last_at = Some(at);
    parts.metrics.evaluations.inc();
    let is_stored = !outcome.as_ref().is_err_and(EvaluationError::is_of_write);
    match outcome {
        Ok(()) => (rule.last_error, rule.successes) = (None, rule.successes.saturating_add(1)),
        Err(error) => {
            parts.metrics.failed(error.reason());
            let text = error.to_string();
            // A rule that fails each time is logged once.
            if rule.last_error.as_ref() != Some(&text) {
                let (file, group, rule) = (&*spec.file, &spec.name, &rule.spec.name);
                tracing::warn!(file, group, rule, error = text, "a rule could not be evaluated");
            }
            rule.last_error = Some(text);
        }
    }
    // Alerts are sent after a failure, too: without a notification, receivers would regard them as resolved
    // after a while, and a failed evaluation resolves nothing.
    let Some(sent_at) = sending.allowed_at(is_stored).await else { return };
    let resend = Resend { delay: parts.resend_delay, interval: spec.interval };
    let due = rule.alerts.to_send(resend, sent_at);
    let origin = origin_of(parts, spec, sending.shard);
    parts.notifier.send(origin, rule.spec.expression(), due);
}

fn origin_of<'a>(parts: &'a Parts, spec: &'a GroupSpec, shard: Option<u32>) -> Origin<'a> {
    let Parts { tenant, are_stored, .. } = parts;
    Origin { tenant, are_stored: *are_stored, file: &spec.file, group: &spec.name, shard }
}

/// The time of a clock.
pub fn now(env: &Env) -> Instant {
    Instant::of_ns(env.now_ns())
}
