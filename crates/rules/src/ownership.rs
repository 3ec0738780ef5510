//! Which process evaluates a group of rules, when several have the same rules.
//!
//! Groups are divided into shards. The catalog records the owner of each shard: a process under its current
//! incarnation. This is the *term* of the process. A term ends when the process gives the shard up, or when
//! another process seals the incarnation because it seems to be dead.
//!
//! **Invariants.** Samples of a term are stored under its incarnation, or not at all: after the seal the WAL
//! accepts nothing. Evaluations and notifications happen only while the term is confirmed: a read of the
//! catalog that began at most [`LEASE`] ago showed it. The age is measured by the monotonic clock, which goes
//! on while a process is stopped.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::{BoxFuture, Id};
use sandur_model::{Matcher, RuleShards, STORED_RULE_SHARDS, SampleBatch, TenantId};
use sandur_query::QueryContext;
use sandur_runtime::Env;
use xxhash_rust::xxh3::xxh3_64;

use crate::data::{Data, Instant, LastSample, ReadSeries, Vector};
use crate::error::EvaluationError;
use crate::notify::{Message, NotSent, Outcome, Post};
use crate::spec::{Expression, GroupSpec};

/// How old the knowledge may be that a process owns a shard. Shorter than the silence after which a process
/// is presumed dead, and longer than the interval between two reads of the catalog.
pub const LEASE: Duration = Duration::from_secs(10);
/// How long a process that is not sure waits for a read of the catalog.
const REFRESH_MAX: Duration = Duration::from_secs(5);
/// How long samples wait until it is sure whether the term goes on: longer than it takes until a process that
/// does not reach the store is presumed dead.
const SURE_WITHIN: Duration = Duration::from_secs(60);
/// The pause before another look at an unsure term.
pub const PAUSE: Duration = Duration::from_secs(1);

/// The owners of all shards, as far as this process knows.
#[derive(Clone, Debug)]
pub struct Owners {
    /// Whether owners are recorded. If not, each process evaluates all rules that it has.
    pub is_recorded: bool,
    /// The incarnation of this process.
    pub incarnation: Id,
    /// The shards that it owns.
    pub own: RuleShards,
    /// The shards that it should own.
    pub wanted: RuleShards,
    /// The shards that no live process owns.
    pub free: RuleShards,
    /// The owners, by node id.
    pub nodes: Vec<(RuleShards, String)>,
    /// Whether it is not known yet which other processes are alive.
    pub is_unknown: bool,
    /// When the oldest process that is certainly alive started, by its clock.
    pub running_since: Instant,
}

/// What this process knows of its own term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Whether owners are recorded.
    pub is_recorded: bool,
    /// The incarnation of this process.
    pub incarnation: Id,
    /// The shards that it owns.
    pub own: RuleShards,
    /// For how long this may be out of date.
    pub age: Duration,
    /// Whether no other process is registered that evaluates rules.
    pub is_alone: bool,
}

/// The record of the owners.
pub trait Ownership: Send + Sync {
    /// The owners. Makes no request.
    fn owners(&self) -> Owners;

    /// What is known of the own term. Makes no request.
    fn lease(&self) -> Lease;

    /// Records that the incarnation owns exactly these shards. Returns false if another process owns one of
    /// them, or the incarnation is sealed.
    fn own(&self, incarnation: Id, shards: RuleShards) -> BoxFuture<'_, Result<bool, String>>;

    /// Reads the record again.
    fn refresh(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// The record of the owners, and whose rules are evaluated.
#[derive(Clone, Copy)]
pub struct Coordination<'a> {
    /// The record.
    pub ownership: &'a Arc<dyn Ownership>,
    /// The tenant.
    pub tenant: &'a TenantId,
    /// Whether these are rules of the store, in place of files.
    pub are_stored: bool,
}

impl Coordination<'_> {
    /// The shard of a group.
    pub fn shard_of(&self, spec: &GroupSpec) -> u32 {
        let shard = shard_of(self.tenant, &spec.file, &spec.name);
        if self.are_stored { shard } else { STORED_RULE_SHARDS + shard }
    }

    /// Those of the shards that hold rules of this kind.
    pub fn own_kind(&self, shards: RuleShards) -> RuleShards {
        if self.are_stored { shards.and(RuleShards::STORED) } else { shards.without(RuleShards::STORED) }
    }
}

/// The shard of a group among those of its kind: a hash of tenant, file and name. Equal in all versions of
/// the program.
fn shard_of(tenant: &TenantId, file: &str, name: &str) -> u32 {
    let mut text = Vec::new();
    for part in ["rules", tenant.as_str(), file, name] {
        text.extend_from_slice(part.as_bytes());
        // No valid UTF-8 has this byte.
        text.push(0xFF);
    }
    (xxh3_64(&text) % u64::from(STORED_RULE_SHARDS)) as u32
}

/// What is known of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The process owns the shard.
    Held,
    /// The last read of the catalog is too old.
    Unsure,
    /// Another process owns it, or will.
    Lost,
}

/// The ownership of one shard under one incarnation.
#[derive(Clone)]
pub struct Term {
    ownership: Arc<dyn Ownership>,
    env: Env,
    incarnation: Id,
    shard: u32,
}

impl Term {
    /// The term of an incarnation that owns the shard.
    pub fn new(ownership: Arc<dyn Ownership>, env: Env, incarnation: Id, shard: u32) -> Self {
        Self { ownership, env, incarnation, shard }
    }

    /// What is known of the term. Makes no request.
    pub fn standing(&self) -> Standing {
        let lease = self.ownership.lease();
        match lease.is_recorded && lease.incarnation == self.incarnation && lease.own.has(self.shard) {
            true => standing_of(&lease),
            false => Standing::Lost,
        }
    }

    /// What is known of the term. If the last read of the catalog is too old, reads it again.
    pub async fn confirm(&self) -> Standing {
        if self.standing() == Standing::Unsure {
            refresh(&self.env, &*self.ownership).await;
        }
        self.standing()
    }

    /// Waits for some time until it is sure whether the term goes on: a process that was cut off or stopped
    /// in the middle of an evaluation may still store its samples.
    async fn settled(&self) -> Standing {
        let until = self.env.monotonic() + SURE_WITHIN;
        loop {
            match self.confirm().await {
                Standing::Unsure if self.env.monotonic() < until => self.env.sleep(PAUSE).await,
                standing => return standing,
            }
        }
    }

    /// What is known of the term after another read of the catalog.
    pub async fn confirm_anew(&self) -> Standing {
        refresh(&self.env, &*self.ownership).await;
        self.standing()
    }
}

/// A process that is alone when the store stops to answer goes on: only a process that starts later could
/// follow it, and receivers would regard its alerts as resolved.
fn standing_of(lease: &Lease) -> Standing {
    if lease.age <= LEASE || lease.is_alone { Standing::Held } else { Standing::Unsure }
}

async fn refresh(env: &Env, ownership: &dyn Ownership) {
    if let Some(Err(error)) = env.timeout(REFRESH_MAX, ownership.refresh()).await {
        tracing::debug!(error, "the owners of rules could not be read");
    }
}

/// Posts only while this process owns shards of rules.
pub struct ConfirmedPost {
    /// What posts.
    pub post: Arc<dyn Post>,
    /// The record of the owners.
    pub ownership: Arc<dyn Ownership>,
    /// The clock.
    pub env: Env,
}

impl ConfirmedPost {
    fn is_allowed(&self) -> bool {
        let lease = self.ownership.lease();
        !lease.is_recorded || (!lease.own.is_empty() && standing_of(&lease) == Standing::Held)
    }
}

impl Post for ConfirmedPost {
    fn post<'a>(
        &'a self,
        message: Message<'a>,
        tenant: &'a TenantId,
        timeout: Duration,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            if !self.is_allowed() {
                refresh(&self.env, &*self.ownership).await;
            }
            match self.is_allowed() {
                true => self.post.post(message, tenant, timeout).await,
                false => Err(NotSent::Failed(
                    "it is not sure that this process still owns the rules: alerts wait".to_owned(),
                )),
            }
        })
    }
}

/// The data of a group within a term: samples are stored under its incarnation, or not at all.
pub struct DataOfTerm {
    /// The data.
    pub data: Arc<dyn Data>,
    /// The term.
    pub term: Term,
}

impl Data for DataOfTerm {
    fn context(&self, timeout: Duration) -> QueryContext {
        self.data.context(timeout)
    }

    fn query<'a>(
        &'a self,
        expression: Expression<'a>,
        at: Instant,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vector, EvaluationError>> {
        self.data.query(expression, at, timeout)
    }

    fn store(&self, batch: SampleBatch) -> BoxFuture<'_, Result<(), EvaluationError>> {
        self.store_under(batch, self.term.incarnation)
    }

    fn store_under(&self, batch: SampleBatch, incarnation: Id) -> BoxFuture<'_, Result<(), EvaluationError>> {
        Box::pin(async move {
            match self.term.settled().await {
                Standing::Held => self.data.store_under(batch, incarnation).await,
                Standing::Unsure | Standing::Lost => Err(EvaluationError::NotOwner),
            }
        })
    }

    fn last_samples<'a>(
        &'a self,
        matchers: Vec<Matcher>,
        first: Instant,
        last: Instant,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<LastSample>, EvaluationError>> {
        self.data.last_samples(matchers, first, last, timeout)
    }

    fn read<'a>(
        &'a self,
        matchers: Vec<Matcher>,
        times: (Instant, Instant),
        timeout: Duration,
        each: ReadSeries<'a>,
    ) -> BoxFuture<'a, Result<(), EvaluationError>> {
        self.data.read(matchers, times, timeout, each)
    }

    fn batch(&self) -> SampleBatch {
        self.data.batch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_spread_over_all_shards_and_keep_theirs() {
        let tenant = TenantId::default_tenant();
        let shards: std::collections::BTreeSet<u32> =
            (0..1_000).map(|n| shard_of(&tenant, "a.yml", &format!("g{n}"))).collect();
        assert_eq!(shards.len(), STORED_RULE_SHARDS as usize);
        // Another value would move all groups while processes of two versions run.
        assert_eq!(shard_of(&tenant, "/etc/sandur/rules/a.yml", "api"), 21);
    }
}
