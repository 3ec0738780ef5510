//! The owner of each shard of rules, as the catalog records it and as placement wants it.
//!
//! **Invariants.** A shard has at most one owner that is not sealed: the catalog refuses a second one. A
//! process gives a shard up only when all its earlier pushes are settled. A push under an incarnation is
//! never stored under another one. So a process that becomes the owner, and has read the WAL of the former
//! one to its end or its seal, has seen everything that the former owner wrote and ever will write.

use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::placement::PlaceKey;
use sandur_catalog::{Snapshot, Writer as Registered};
use sandur_model::{RULE_SHARDS, Role, RuleShards, STORED_RULE_SHARDS};

use crate::error::{Error, refused};
use crate::place::node_of;
use crate::writing::writer::Writer;

/// How long a process that gives up shards waits until its earlier pushes are settled.
const SETTLING_MAX: Duration = Duration::from_secs(10);
/// A process whose heartbeat has not grown yet may be alive for this long after it was first read.
const UNKNOWN_MAX: Duration = Duration::from_secs(15);

/// What this process knows of the shards of rules that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleLease {
    /// Whether the catalog records owners: not in a local directory, and not while an older program is
    /// registered.
    pub is_recorded: bool,
    /// The incarnation of this process. It changes when the process was fenced.
    pub incarnation: Id,
    /// The shards that this incarnation owns; none if it is sealed.
    pub own: RuleShards,
    /// For how long this may be out of date.
    pub age: Duration,
    /// Whether no other process is registered that evaluates rules.
    pub is_alone: bool,
}

/// Who evaluates the shards of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTerms {
    /// What is known of the own shards.
    pub lease: RuleLease,
    /// The shards that this node should own.
    pub wanted: RuleShards,
    /// The shards that no live process owns.
    pub free: RuleShards,
    /// The owners, by node id.
    pub owners: Vec<(RuleShards, String)>,
    /// Whether it is not known yet which other processes are alive.
    pub is_unknown: bool,
    /// When the oldest process that is certainly alive started, by its own clock, in milliseconds since the
    /// epoch.
    pub running_since_ms: i64,
}

/// The key by which placement chooses the node of a shard.
fn key_of(shard: u32) -> PlaceKey {
    PlaceKey::of_name(&format!("rules {shard}"))
}

impl Writer {
    /// What is known of the shards of rules that this process owns. Makes no request.
    pub(crate) fn rule_lease(&self) -> RuleLease {
        self.rule_lease_in(&self.node.catalog.snapshot())
    }

    fn rule_lease_in(&self, snapshot: &Snapshot) -> RuleLease {
        let incarnation = self.incarnation();
        let own = snapshot.writer(incarnation).filter(|writer| !writer.is_sealed());
        let is_other = |writer: &&Registered| !writer.is_sealed() && writer.incarnation != incarnation;
        let evaluates = |writer: &Registered| node_of(writer).roles.has(Role::Rules);
        RuleLease {
            is_recorded: !self.local && self.node.catalog.records_owners_of_rules(),
            incarnation,
            own: own.map_or(RuleShards::NONE, |own| own.rules),
            age: self.node.catalog.age(),
            is_alone: !snapshot.writers().values().filter(is_other).any(evaluates),
        }
    }

    /// Who evaluates the shards of rules, as far as this process knows. Makes no request.
    pub(crate) fn rule_terms(&self) -> RuleTerms {
        let (snapshot, incarnation) = (self.node.catalog.snapshot(), self.incarnation());
        let is_live = |writer: &&Registered| !writer.is_sealed();
        let own = snapshot.writer(incarnation).filter(is_live);
        let owned = own.map_or(RuleShards::NONE, |own| own.rules);
        let others =
            || snapshot.writers().values().filter(is_live).filter(|writer| writer.incarnation != incarnation);
        let taken = others().fold(owned, |all, writer| all.or(writer.rules));
        let owner =
            |writer: &Registered| (!writer.rules.is_empty()).then(|| (writer.rules, node_of(writer).id));
        let members = self.membership.members();
        let is_alive = |writer: &&Registered| {
            members.as_ref().is_some_and(|members| members.has_grown(writer.incarnation))
                && self.silence_of(writer).is_some_and(|silence| silence < UNKNOWN_MAX)
        };
        let is_unknown = |writer: &Registered| {
            let has_grown = members.as_ref().is_none_or(|members| members.has_grown(writer.incarnation));
            !has_grown && self.silence_of(writer).is_some_and(|silence| silence < UNKNOWN_MAX)
        };
        let started = own.into_iter().chain(others().filter(is_alive)).map(|writer| writer.started_ms);
        RuleTerms {
            lease: self.rule_lease_in(&snapshot),
            wanted: self.wanted_shards(&snapshot, owned),
            free: RuleShards::ALL.without(taken),
            owners: own.into_iter().chain(others()).filter_map(owner).collect(),
            is_unknown: others().any(is_unknown),
            running_since_ms: started.min().unwrap_or(i64::MAX),
        }
    }

    /// The shards that placement gives to this node. Without any node for them, what it owns.
    fn wanted_shards(&self, snapshot: &Snapshot, owned: RuleShards) -> RuleShards {
        let (placement, _) = self.node.place.placement();
        let own = snapshot.writer(self.incarnation()).map(|writer| node_of(writer).id);
        let role = |shard| if shard < STORED_RULE_SHARDS { Role::Rules } else { Role::RuleFiles };
        let is_wanted = |shard: &u32| match placement.owner(role(*shard), key_of(*shard)) {
            Some(owner) => Some(&owner.id) == own.as_ref(),
            None => owned.has(*shard),
        };
        (0..RULE_SHARDS).filter(is_wanted).fold(RuleShards::NONE, |all, n| all.or(RuleShards::one(n)))
    }

    /// Records that `incarnation` owns exactly these shards. Returns whether it does: another process may
    /// own one of them, or the incarnation may be sealed. Waits for earlier pushes before it gives up one.
    pub(crate) async fn own_rules(&self, incarnation: Id, shards: RuleShards) -> Result<bool, Error> {
        let before = self.node.catalog.snapshot().writer(incarnation).map(|writer| writer.rules);
        if !before.unwrap_or_default().without(shards).is_empty() {
            self.settle_pushes().await?;
        }
        let owned = self.node.catalog.own_rules(incarnation, shards).await;
        match owned.map_err(|error| refused("the owner of rules", &error))? {
            Some(snapshot) => self.publish(snapshot),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Waits until every push of before is durable or refused, also those whose clients got no answer.
    async fn settle_pushes(&self) -> Result<(), Error> {
        let wal = self.wal();
        self.node.env.timeout(SETTLING_MAX, wal.settled()).await.ok_or_else(|| {
            let reason = wal.status().trouble().unwrap_or_else(|| "the WAL is slow".to_owned());
            Error::AckTimeout { waited: SETTLING_MAX, reason }
        })
    }
}
