//! `CarbonV2/List`: all paths.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_base::Reservation;
use sandur_graphite::{CarbonserverForm, ListingForm, ListingRequest, Rendered};
use sandur_service::Queries;

use super::{FAILS, Opened, one};
use crate::failed_request::Failure;
use crate::graphite::answer::{done, named, now};
use crate::graphite::parameters::GraphiteCall;
use crate::route::{Access, Group, POST, Route};

/// The row of this call in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/List"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "All paths by carbonserver's gRPC, in one message.",
    parameters: &[],
    answers: "`OK` and a `ListMetricsResponse`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, list),
};

async fn list(State(queries): State<Queries>, Opened(call): Opened) -> Response {
    one(listed(&queries, call, ListingForm::Names(CarbonserverForm::Older)).await)
}

/// Reads a listing into one message; each piece is reserved.
pub async fn listed(
    queries: &Queries,
    call: Result<GraphiteCall, Failure>,
    form: ListingForm,
) -> Result<(Rendered, Reservation), Failure> {
    let call = call?;
    let wanted = ListingRequest { pattern: None, leaves_only: false, form };
    let described = named("list", &call, &[]);
    done(queries, &call, described, async |series, context| {
        let mut listing = series.listing(context, wanted, now(queries)).await?;
        let (mut body, mut held) = (Vec::new(), Vec::new());
        while !listing.is_over() {
            let piece = listing.piece().await?;
            // Twice the size, since the body doubles its capacity when it grows.
            let memory = context.budget().reserve(2 * piece.len() as u64);
            held.push(memory.map_err(sandur_query::Error::from)?);
            body.extend_from_slice(&piece);
        }
        Ok(Rendered { content_type: form.content_type(), body })
    })
    .await
}
