//! `config/tenant/v1/limits`: the limits of a tenant.

use axum::extract::State;
use axum::response::Response;
use sandur_config::{LIMITS, LimitSpec};
use sandur_model::Limits;
use sandur_service::Queries;

use super::yaml;
use crate::call::Call;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/config/tenant/v1/limits"],
    scope: Access::Read,
    does: "The limits of the tenant.",
    answers: "200, YAML with Loki's names where Loki has the limit.",
    handler: |request, app| tenant_limits.call(request, app),
    ..Route::of(Group::Operations)
};

/// Loki's limits that follow from other limits here.
fn derived(limits: &Limits) -> String {
    let mebibytes = |bytes: u64| bytes as f64 / (1u64 << 20) as f64;
    format!(
        "allow_structured_metadata: true\n\
         ingestion_burst_size_mb: {}\n\
         ingestion_rate_mb: {}\n\
         reject_old_samples: {}\n\
         volume_enabled: true\n",
        mebibytes(limits.ingestion_burst),
        mebibytes(limits.ingestion_rate),
        limits.reject_old_samples_max_age > 0,
    )
}

async fn tenant_limits(State(queries): State<Queries>, call: Call) -> Response {
    let mut limits = Limits::clone(&queries.limits(&call.caller.tenant));
    let mut page = derived(&limits);
    for LimitSpec { key, slot, .. } in LIMITS {
        page.push_str(&yaml::line("", key, &slot(&mut limits)));
    }
    reply::text(page)
}
