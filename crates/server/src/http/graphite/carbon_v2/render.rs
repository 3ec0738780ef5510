//! `CarbonV2/Render`: values of series, a message for each.

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::on;
use bytes::Bytes;
use sandur_base::Reservation;

use super::{FAILS, opened};
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::graphite::answer::{Told, done, failure, now, rendered};
use crate::http::graphite::render::pairs_of;
use crate::http::grpc;
use crate::http::route::{Access, Group, POST, Route};
use crate::wiring::graphite::{RenderRequest, Rendered, Zone, each_series, read_fetches};

/// This call.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/Render"],
    group: Group::Graphite,
    scope: Access::Read,
    does: "Values of series by carbonserver's gRPC (HTTP/2; also on `otlp_grpc_listen`): a \
           `MultiFetchRequest` of carbonapi's second protocol asks for them.",
    parameters: &[],
    answers: "`OK` and a stream of `FetchResponse`, one for each series; none where nothing fits.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, render),
};

const FORMAT: &str = "carbonapi_v2_pb";

async fn render(State(app): State<App>, request: Request) -> Response {
    match evaluated(&app, request).await {
        Ok((series, memory)) => grpc::messages(series, Some(memory)),
        Err(failure) => grpc::failure(&failure),
    }
}

async fn evaluated(app: &App, request: Request) -> Result<(Vec<Bytes>, Reservation), Failure> {
    let call = opened(app, request).await?;
    let fetches = read_fetches(&call.body).map_err(|error| failure(&error))?;
    let read = |pairs: Vec<(String, String)>| RenderRequest::read(&pairs, now(app), &Zone::utc());
    let requests = fetches.iter().map(|fetch| read(pairs_of(fetch, FORMAT))).collect::<Result<Vec<_>, _>>();
    let requests = requests.map_err(|error| failure(&error))?;
    let text = fetches.iter().map(|fetch| fetch.name.as_str()).collect::<Vec<_>>().join(" ");
    let times = requests.first().map(|one| (one.from.epoch, one.until.epoch));
    let told = Told { kind: "render", text, times };
    let (whole, memory) = done(app, &call, told, async |series, context| {
        let mut whole = Rendered { content_type: FORMAT, body: Vec::new() };
        for request in &requests {
            whole.body.extend_from_slice(&rendered(series, context, request).await?.body);
        }
        Ok(whole)
    })
    .await?;
    let body = Bytes::from(whole.body);
    Ok((each_series(&body).into_iter().map(|series| body.slice_ref(series)).collect(), memory))
}
