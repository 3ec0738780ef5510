//! What groups share in commands, which evaluate rules and send nothing: unit tests and replays.

use std::sync::Arc;
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_memory::MemoryBudget;
use sandur_model::TenantId;
use sandur_runtime::Env;

use crate::data::Data;
use crate::external::External;
use crate::group::{EVALUATIONS_MAX, Parts};
use crate::metrics::RuleMetrics;
use crate::notify::{Grouping, Message, Notifier, NotifierParts, Outcome, Post};
use crate::restore::Tolerance;
use crate::rule::Common;

/// Memory of the state of rules.
const STATE_BYTES: u64 = 256 << 20;
/// As in a server; it only decides when an alert would be sent again.
const RESEND_DELAY: Duration = Duration::from_secs(60);

/// Sends nothing.
struct Nowhere;

impl Post for Nowhere {
    fn post<'a>(&'a self, _: Message<'a>, _: &'a TenantId, _: Duration) -> BoxFuture<'a, Outcome> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl Parts {
    /// The parts of groups whose alerts nobody receives. `timeout` is the longest evaluation of a rule, and
    /// `series_max` the most series of one.
    pub(crate) fn unsent(
        env: &Env,
        data: Arc<dyn Data>,
        external: External,
        (timeout, series_max): (Duration, usize),
    ) -> Self {
        let (external, metrics) = (Arc::new(external), RuleMetrics::default());
        let notifier = Notifier::new(NotifierParts {
            env: env.clone(),
            alertmanagers: Vec::new(),
            receivers: Vec::new(),
            grouping: Grouping::default(),
            external: Arc::clone(&external),
            silences: None,
            post: Arc::new(Nowhere),
            metrics: metrics.clone(),
        });
        let tolerance = Tolerance { outage: Duration::ZERO, grace: Duration::ZERO };
        Self {
            env: env.clone(),
            tenant: TenantId::default_tenant(),
            are_stored: false,
            common: Common { data, external, series_max, timeout, tolerance },
            notifier,
            resend_delay: RESEND_DELAY,
            memory: MemoryBudget::root("state of rules", STATE_BYTES),
            metrics,
            turns: Arc::new(tokio::sync::Semaphore::new(EVALUATIONS_MAX)),
        }
    }
}
