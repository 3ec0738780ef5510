//! Takes shards of rules, gives them up, and notices when they are lost.
//!
//! **Invariants.** A group runs only while this process owns its shard. Before a shard is given up its groups
//! have ended, and their alerts no longer wait to be sent. When the incarnation changes, or a shard is lost,
//! its groups are dropped at once, with what they know and what they wanted to send.

use std::sync::Arc;
use std::time::Duration;

use sandur_model::RuleShards;
use sandur_runtime::Env;

use crate::ownership::{Coordination, LEASE, Owners, Term};
use crate::rule::Rule;
use crate::running::Start;
use crate::spec::GroupSpec;

/// What the ruler has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duties {
    /// Shards whose groups are dropped now: their term has ended.
    pub dropped: RuleShards,
    /// Whether the process has another incarnation, or owners are recorded for the first time.
    pub is_new_term: bool,
    /// Shards to give up: their groups end first.
    pub given_up: RuleShards,
    /// What this process wants to own from now on, if that is a change.
    pub owned: Option<RuleShards>,
}

/// The shards whose groups run in this process.
#[derive(Debug)]
pub struct Shards {
    /// The owners at the last look; `None` if owners are not recorded.
    owners: Option<Owners>,
    running: RuleShards,
    /// Shards whose groups start where another process ended.
    continued: RuleShards,
    /// Shards of new rules that no other process has owned since there are rules: nobody evaluated them.
    untouched: RuleShards,
}

impl Shards {
    /// No shards yet, of rules that another process may have evaluated, or of new ones.
    pub fn new(are_rules_new: bool) -> Self {
        let untouched = if are_rules_new { RuleShards::ALL } else { RuleShards::NONE };
        Self { owners: None, running: RuleShards::NONE, continued: RuleShards::NONE, untouched }
    }

    /// Takes what is known of the owners. Returns what is to do.
    pub fn look(&mut self, owners: Owners, age: Duration) -> Duties {
        if !owners.is_recorded {
            // Each process evaluates all rules that it has.
            let was_recorded = self.owners.take().is_some();
            let dropped = if was_recorded { self.running } else { RuleShards::NONE };
            (self.running, self.continued) = (RuleShards::ALL, RuleShards::NONE);
            self.untouched = RuleShards::NONE;
            return Duties { dropped, ..Duties::default() };
        }
        let is_new_term = self.owners.as_ref().is_none_or(|known| known.incarnation != owners.incarnation);
        let mut duties = Duties { is_new_term, ..Duties::default() };
        duties.dropped = if is_new_term { self.running } else { self.running.without(owners.own) };
        self.running = self.running.without(duties.dropped);
        self.untouched = self.untouched.and(owners.own.or(owners.free));
        let kept = owners.own.and(owners.wanted);
        if age <= LEASE && !owners.is_unknown {
            let taken = owners.wanted.and(owners.free);
            duties.given_up = owners.own.without(owners.wanted);
            let wanted = kept.or(taken);
            duties.owned = (wanted != owners.own).then_some(wanted);
            // Of a commit whose outcome was not known, or of a shard that was to be given up.
            self.start(kept);
        }
        self.owners = Some(owners);
        duties
    }

    /// The groups of these shards have ended.
    pub fn ended(&mut self, shards: RuleShards) {
        self.running = self.running.without(shards);
    }

    /// This process owns these shards now.
    pub fn own(&mut self, shards: RuleShards) {
        self.running = self.running.and(shards);
        self.start(shards);
        if let Some(owners) = &mut self.owners {
            owners.own = shards;
        }
    }

    fn start(&mut self, shards: RuleShards) {
        let new = shards.without(self.running);
        self.continued = self.continued.or(new.without(self.untouched));
        (self.running, self.untouched) = (self.running.or(new), self.untouched.without(new));
    }

    /// The shards whose groups run.
    pub fn running(&self) -> RuleShards {
        self.running
    }

    /// Whether owners are recorded, so that what is stored needs a term.
    pub fn are_recorded(&self) -> bool {
        self.owners.is_some()
    }

    /// How a new group of a shard begins, if it is of the files of before.
    pub fn start_of(&self, shard: Option<u32>) -> Start {
        match (&self.owners, shard) {
            (Some(owners), Some(shard)) if self.continued.has(shard) => {
                Start::Continued(owners.running_since)
            }
            _ => Start::Next,
        }
    }

    /// All groups of the continued shards have begun.
    pub fn begun(&mut self) {
        self.continued = RuleShards::NONE;
    }

    /// The owners, by node id.
    pub fn nodes(&self) -> &[(RuleShards, String)] {
        self.owners.as_ref().map_or(&[], |owners| &owners.nodes)
    }

    /// The node that owns a shard.
    pub fn evaluator_of(&self, shard: u32) -> Option<String> {
        let owners = self.owners.as_ref()?;
        owners.nodes.iter().find(|(shards, _)| shards.has(shard)).map(|(_, node)| node.clone())
    }

    /// The term of a shard; `None` if owners are not recorded.
    pub fn term_of(&self, of: Coordination<'_>, env: &Env, shard: u32) -> Option<Term> {
        let owners = self.owners.as_ref()?;
        Some(Term::new(Arc::clone(of.ownership), env.clone(), owners.incarnation, shard))
    }
}

/// Whether a rule that ended goes on in a group that another process evaluates.
pub fn goes_on_elsewhere(rule: &Rule, elsewhere: &GroupSpec) -> bool {
    let identity = rule.spec.identity();
    elsewhere.rules.iter().any(|other| other.identity() == identity)
}

#[cfg(test)]
mod tests {
    use sandur_base::Id;

    use super::*;
    use crate::data::Instant;

    fn owners(incarnation: u128, own: u64, wanted: u64, free: u64) -> Owners {
        let bits = RuleShards::from_bits;
        Owners {
            is_recorded: true,
            incarnation: Id(incarnation),
            own: bits(own),
            wanted: bits(wanted),
            free: bits(free),
            nodes: vec![(bits(own), "own".to_owned())],
            is_unknown: false,
            running_since: Instant::default(),
        }
    }

    const FRESH: Duration = Duration::ZERO;

    #[test]
    fn shards_are_taken_given_up_and_lost() {
        let mut shards = Shards::new(false);
        let duties = shards.look(owners(1, 0, 0b0111, 0b0011), FRESH);
        assert_eq!(duties.owned, Some(RuleShards::from_bits(0b0011)), "the third one has an owner");
        assert!(duties.is_new_term && duties.dropped.is_empty() && shards.running().is_empty());
        shards.own(RuleShards::from_bits(0b0011));
        assert_eq!(shards.running().bits(), 0b0011);
        assert!(matches!(shards.start_of(Some(1)), Start::Continued(_)));
        shards.begun();
        assert_eq!(shards.start_of(Some(1)), Start::Next);
        // Placement moves one, and another one is free.
        let duties = shards.look(owners(1, 0b0011, 0b0110, 0b0100), FRESH);
        assert_eq!(duties.given_up.bits(), 0b0001);
        assert_eq!(duties.owned, Some(RuleShards::from_bits(0b0110)));
        shards.ended(duties.given_up);
        shards.own(RuleShards::from_bits(0b0110));
        // An old view changes nothing but what is lost.
        let duties = shards.look(owners(1, 0b0100, 0b1111, 0b1011), LEASE * 2);
        assert_eq!((duties.dropped.bits(), duties.owned), (0b0010, None));
        // Another incarnation owns nothing.
        let duties = shards.look(owners(2, 0, 0, 0), FRESH);
        assert!(duties.is_new_term && shards.running().is_empty());
        assert_eq!(duties.dropped.bits(), 0b0100);
    }

    #[test]
    fn without_a_record_all_groups_run() {
        let mut shards = Shards::new(false);
        let unrecorded = || Owners { is_recorded: false, ..owners(1, 0, 0, 0) };
        assert_eq!(shards.look(unrecorded(), FRESH), Duties::default());
        assert_eq!((shards.running(), shards.start_of(Some(3))), (RuleShards::ALL, Start::Next));
        // The last older program has ended.
        let duties = shards.look(owners(1, 0, 1, 1), FRESH);
        assert_eq!((duties.dropped, duties.owned), (RuleShards::ALL, Some(RuleShards::from_bits(1))));
    }

    #[test]
    fn new_rules_continue_only_where_another_process_owned_their_shard() {
        let mut shards = Shards::new(true);
        shards.look(owners(1, 0b0001, 0b0111, 0b0010), FRESH);
        assert_eq!((shards.running().bits(), shards.start_of(Some(0))), (0b0001, Start::Next));
        shards.own(RuleShards::from_bits(0b0011));
        assert_eq!(shards.start_of(Some(1)), Start::Next, "nobody owned it");
        // The other process has ended.
        shards.look(owners(1, 0b0011, 0b0111, 0b0100), FRESH);
        shards.own(RuleShards::from_bits(0b0111));
        assert!(matches!(shards.start_of(Some(2)), Start::Continued(_)));
        shards.begun();
        // A shard that moved away and comes back was evaluated elsewhere.
        shards.look(owners(1, 0b0110, 0b0110, 0), FRESH);
        shards.look(owners(1, 0b0111, 0b0111, 0), FRESH);
        assert!(matches!(shards.start_of(Some(0)), Start::Continued(_)));
    }

    #[test]
    fn nothing_is_taken_before_it_is_known_who_lives() {
        let mut shards = Shards::new(false);
        let duties = shards.look(Owners { is_unknown: true, ..owners(1, 0, 1, 1) }, FRESH);
        assert_eq!(duties.owned, None);
    }
}
