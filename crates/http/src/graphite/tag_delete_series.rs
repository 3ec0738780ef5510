//! `tags/delSeries`: deletes series with their values, by delete requests as for
//! `admin/tsdb/delete_series`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use sandur_base::BoxFuture;
use sandur_graphite::{Forget, delete_series as answered};
use sandur_model::{Matcher, Signal, TenantId};
use sandur_service::Deletes;
use sandur_service::promql::exact_selector_text;
use sandur_service::{Queries, Writes};

use super::answer::{JSONP, answer, named};
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::loki::deletes;
use crate::prometheus::delete_series::EARLIEST_MS;
use crate::route::{Access, Group, Handler, POST, Route, parameter};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: paths!("/tags/delSeries"),
    scope: Access::Delete,
    does: "Deletes series with their values until now: when it answers, queries do not return them any more; \
           they are removed from the store as with `/api/v1/admin/tsdb/delete_series`. A name is that of a \
           series with exactly these tags, or a path. A later value creates the series again.",
    parameters: &[parameter("path", "a name; may be repeated, up to 1,000 times"), JSONP],
    answers: "200, `true`, also if no series has the name.",
    fails: "400: a parameter, a limit; 403: `deletion_mode` is `disabled`; 429; 503; 504.",
    handler: |request, app| tag_delete_series.call(request, app),
    ..Route::of(Group::Graphite)
};

async fn tag_delete_series(
    State(queries): State<Queries>,
    State(writes): State<Writes>,
    call: GraphiteCall,
) -> Result<Response, Failure> {
    let described = named("delete", &call, &["path"]);
    let tenant = call.call.caller.tenant.clone();
    let requests = deletes::of(&writes, &tenant, Signal::Metrics)?;
    let forget = Requests { requests, tenant, until_ms: queries.env().now_ns().div_euclid(1_000_000) };
    answer(&queries, &call, described, async |series, context| {
        let series = series.deleting(&forget);
        answered(&series, context, &call.pairs).await
    })
    .await
}

/// The delete requests of a tenant.
struct Requests {
    requests: Arc<dyn Deletes>,
    tenant: TenantId,
    until_ms: i64,
}

impl Forget for Requests {
    fn forget<'a>(&'a self, matchers: Vec<Matcher>) -> BoxFuture<'a, Result<(), sandur_query::Error>> {
        Box::pin(async move {
            let Self { requests, tenant, until_ms } = self;
            let selector = exact_selector_text(&matchers);
            let id = requests.create(tenant, &selector, EARLIEST_MS, *until_ms).await.map_err(|failure| {
                let text = failure.message.trim_end().to_owned();
                match failure.may_pass() {
                    true => sandur_query::Error::Unavailable(text),
                    false => sandur_query::Error::Invalid(text),
                }
            })?;
            tracing::info!(tenant = %tenant, %id, selector, until_ms, "created a delete request");
            Ok(())
        })
    }
}
