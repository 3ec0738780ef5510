//! The engine's record of the owners of rules, as the ruler asks for it.

use std::sync::Arc;

use sandur_base::{BoxFuture, Id};
use sandur_engine::{Engine, RuleLease, RuleTerms};
use sandur_model::RuleShards;
use sandur_rules::data::Instant;
use sandur_rules::{Lease, Owners, Ownership};

/// The owners of rules in the catalog of an engine.
pub struct EngineOwnership(pub Arc<Engine>);

impl Ownership for EngineOwnership {
    fn owners(&self) -> Owners {
        let RuleTerms { lease, wanted, free, owners, is_unknown, running_since_ms } = self.0.rule_terms();
        let RuleLease { is_recorded, incarnation, own, .. } = lease;
        let running_since = Instant::of_ns(running_since_ms.saturating_mul(1_000_000));
        Owners { is_recorded, incarnation, own, wanted, free, nodes: owners, is_unknown, running_since }
    }

    fn lease(&self) -> Lease {
        let RuleLease { is_recorded, incarnation, own, age, is_alone } = self.0.rule_lease();
        Lease { is_recorded, incarnation, own, age, is_alone }
    }

    fn own(&self, incarnation: Id, shards: RuleShards) -> BoxFuture<'_, Result<bool, String>> {
        Box::pin(
            async move { self.0.own_rules(incarnation, shards).await.map_err(|error| error.to_string()) },
        )
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.0.refresh_catalog().await.map_err(|error| error.to_string()) })
    }
}
