//! The client of a query, and the warnings of its answer.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sandur_model::TenantId;
use sandur_query::{QueryContext, Warnings};

/// The client of a query, as far as limits, policies and the log of queries need it.
#[derive(Clone)]
pub struct Caller {
    /// The tenant whose data it reads.
    pub tenant: TenantId,
    /// Keys and values with which the client describes itself, such as `source=grafana`.
    pub tags: Vec<(String, String)>,
    /// The user agent of the client; empty if unknown.
    pub user_agent: String,
    /// The id of the trace that the request belongs to.
    pub trace: Option<String>,
    /// The most age of the view that it accepts (`X-Sandur-Min-Freshness`): the answer contains every row
    /// that any process acknowledged until this long before the request, or the query fails. `None`: answers
    /// of any age, with a warning if they may lack rows.
    pub view_age_max: Option<Duration>,
    /// The warnings of the query that answers the request.
    pub answered_by: AnsweredBy,
}

impl Caller {
    /// A caller inside this process. The purpose (`rules`, `demo`) becomes part of its user agent.
    pub fn internal(tenant: TenantId, purpose: &str) -> Self {
        let user_agent = format!("sandur {purpose}");
        let (tags, trace, view_age_max, answered_by) = (Vec::new(), None, None, AnsweredBy::default());
        Self { tenant, tags, user_agent, trace, view_age_max, answered_by }
    }
}

/// The warnings of the first query of a request. Protocols read them when they write the headers of the
/// answer, so handlers need not pass them on. Cheap to clone.
#[derive(Clone, Default)]
pub struct AnsweredBy(Arc<OnceLock<Warnings>>);

impl AnsweredBy {
    /// Records the query whose warnings are returned. Later calls have no effect.
    pub fn note(&self, context: &QueryContext) {
        let _ = self.0.set(context.kept_warnings());
    }

    /// Returns the warnings of the query so far.
    pub fn warnings(&self) -> Vec<String> {
        self.0.get().map(Warnings::all).unwrap_or_default()
    }
}
