//! `sandur/ingest`: what tenants have written since the process started, and why pushes were refused.

use axum::extract::State;
use axum::response::Response;
use sandur_model::MILLISECOND_NS;
use sandur_service::ingest_totals::Totals;
use sandur_service::{Queries, Writes};
use serde_json::{Value, json};

use crate::call::Call;
use crate::failed_request::Failure;
use crate::operations::query_list::{self, Listed};
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of the endpoint for a tenant in the table of routes.
pub static OWN: Route = Route {
    methods: GET,
    paths: &["/sandur/ingest"],
    scope: Access::Read,
    does: "What the tenant has written to this process since it started, by every protocol, and the refused \
           pushes by reason. Samples of scrapes and rules are included.",
    answers: "200, JSON: `{\"tenants\": [{\"tenant\", \"since_ms\", \"accepted_ms\", \"lines\", \
              \"line_bytes\", \"samples\", \"histograms\", \"exemplars\", \"refused\": [{\"reason\", \
              \"pushes\", \"entries\"}, ..]}]}`; `accepted_ms` is 0 if nothing was accepted.",
    fails: "503 when there is no memory for the answer.",
    handler: |request, app| own.call(request, app),
    ..Route::of(Group::Operations)
};

/// The row of the endpoint for operators in the table of routes.
pub static ALL: Route = Route {
    paths: &["/sandur/ingest/all"],
    scope: Access::Admin,
    does: "Like `/sandur/ingest`, for all tenants by name. 1,000 tenants are counted by name, all further \
           ones together as `(others)`.",
    handler: |request, app| all.call(request, app),
    ..OWN
};

/// A tenant in the list.
struct Shown {
    tenant: String,
    since_ns: i64,
    totals: Totals,
}

async fn own(
    State(queries): State<Queries>,
    State(writes): State<Writes>,
    call: Call,
) -> Result<Response, Failure> {
    let tenant = &call.caller.tenant;
    let (since_ns, totals) = (writes.totals().since_ns(), writes.totals().of(tenant));
    let shown = vec![Shown { tenant: tenant.as_str().to_owned(), since_ns, totals }];
    query_list::answer(&queries, &call, shown).await
}

async fn all(
    State(queries): State<Queries>,
    State(writes): State<Writes>,
    call: Call,
) -> Result<Response, Failure> {
    let since_ns = writes.totals().since_ns();
    let all = writes.totals().all().into_iter();
    let shown = all.map(|(tenant, totals)| Shown { tenant, since_ns, totals }).collect();
    query_list::answer(&queries, &call, shown).await
}

impl Listed for Shown {
    const LIST: &str = "tenants";
    const BYTES: usize = 512;

    fn text_bytes(&self) -> usize {
        // A reason with its numbers has less than 128 bytes; the list multiplies by those of escaped text.
        self.tenant.len() + 22 * self.totals.refused.len()
    }

    fn shown(&self) -> Value {
        let Self { tenant, since_ns, totals } = self;
        let refused: Vec<Value> = totals
            .refused
            .iter()
            .map(|(reason, refusals)| {
                json!({ "reason": reason, "pushes": refusals.pushes, "entries": refusals.entries })
            })
            .collect();
        json!({
            "tenant": tenant,
            "since_ms": since_ns / MILLISECOND_NS,
            "accepted_ms": totals.accepted_ns / MILLISECOND_NS,
            "lines": totals.lines,
            "line_bytes": totals.line_bytes,
            "samples": totals.samples,
            "histograms": totals.histograms,
            "exemplars": totals.exemplars,
            "refused": refused,
        })
    }
}
