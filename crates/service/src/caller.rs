//! Who sends a query.

use std::sync::{Arc, OnceLock};

use sandur_model::TenantId;
use sandur_query::{QueryContext, Warnings};

/// The client of a query, as far as limits, policies and the log of queries need it.
#[derive(Clone)]
pub struct Caller {
    /// The tenant whose data it reads.
    pub tenant: TenantId,
    /// What it says of itself (`source=grafana`): key and value.
    pub tags: Vec<(String, String)>,
    /// The program, empty when unknown.
    pub user_agent: String,
    /// The trace that the request belongs to.
    pub trace: Option<String>,
    /// The warnings of the query that answers the request.
    pub answered_by: AnsweredBy,
}

impl Caller {
    /// A caller inside of this process, under the name of its purpose (`rules`, `demo`).
    pub fn internal(tenant: TenantId, purpose: &str) -> Self {
        let user_agent = format!("sandur {purpose}");
        Self { tenant, tags: Vec::new(), user_agent, trace: None, answered_by: AnsweredBy::default() }
    }
}

/// The warnings of the first query that was begun for a request. Protocols read them when they write the
/// head of their answer, so that no handler has to pass them on. Cheap to clone.
#[derive(Clone, Default)]
pub struct AnsweredBy(Arc<OnceLock<Warnings>>);

impl AnsweredBy {
    /// Notes that this query answers the request; a later one changes nothing.
    pub fn note(&self, context: &QueryContext) {
        let _ = self.0.set(context.kept_warnings());
    }

    /// Warnings of the query until now.
    pub fn warnings(&self) -> Vec<String> {
        self.0.get().map(Warnings::all).unwrap_or_default()
    }
}
