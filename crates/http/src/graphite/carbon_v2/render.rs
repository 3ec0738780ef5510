//! `CarbonV2/Render`: values of series, one message per series, sent while series are read.

use axum::extract::State;
use axum::response::Response;
use sandur_base::BoxFuture;
use sandur_graphite::{Error, RenderRequest, RenderStream, Zone, each_series, read_fetches};
use sandur_query::{Error as QueryError, QueryContext};
use sandur_service::Queries;
use sandur_service::graphite::{GraphiteRequest, over_series};

use super::{FAILS, Opened};
use crate::failed_request::Failure;
use crate::graphite::answer::{failure, now, streamed};
use crate::graphite::parameters::GraphiteCall;
use crate::graphite::render::pairs_of;
use crate::grpc;
use crate::route::{Access, Group, Handler, POST, Route};
use crate::written::{Writing, written_as_messages};

/// The row of this call in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/Render"],
    scope: Access::Read,
    does: "Values of series by carbonserver's gRPC (HTTP/2; also on `otlp_grpc_listen`); the request is a \
           `MultiFetchRequest` of carbonapi's second protocol.",
    answers: "`OK` and a stream of `FetchResponse`, one for each series, sent while series are read; none if \
              nothing matches. The trailers report a failure after the first messages.",
    fails: FAILS,
    handler: |request, app| render.call(request, app),
    ..Route::of(Group::Graphite)
};

const FORMAT: &str = "carbonapi_v2_pb";

async fn render(State(queries): State<Queries>, Opened(call): Opened) -> Response {
    match begun(&queries, call).await {
        Ok(response) => response,
        Err(failure) => grpc::failure(&failure),
    }
}

async fn begun(queries: &Queries, call: Result<GraphiteCall, Failure>) -> Result<Response, Failure> {
    let call = call?;
    let fetches = read_fetches(&call.body).map_err(|error| failure(&error))?;
    let read = |pairs: Vec<(String, String)>| RenderRequest::read(&pairs, now(queries), &Zone::utc());
    let requests = fetches.iter().map(|fetch| read(pairs_of(fetch, FORMAT))).collect::<Result<Vec<_>, _>>();
    let requests = requests.map_err(|error| failure(&error))?;
    let text = fetches.iter().map(|fetch| fetch.name.as_str()).collect::<Vec<_>>().join(" ");
    let times = requests.first().map(|one| (one.from.epoch, one.until.epoch));
    let described = GraphiteRequest { kind: "render", text, times };
    let open = |context: &QueryContext| Messages {
        queries: queries.clone(),
        context: context.clone(),
        series: RenderStream::new(requests.clone()),
        times,
        sent: 0,
    };
    let (begun, sending) = streamed(queries, &call, described, open).await?;
    Ok(written_as_messages(begun, sending))
}

/// Makes the messages of an answer.
struct Messages {
    queries: Queries,
    context: QueryContext,
    series: RenderStream,
    times: Option<(i64, i64)>,
    sent: u64,
}

impl Messages {
    async fn next(&mut self) -> Result<Vec<u8>, QueryError> {
        let Self { queries, context, series, times, .. } = self;
        let made = over_series(queries, *times, async |source| series.piece(source, context).await);
        let body = context.in_time(made).await?.map_err(|error| match error {
            Error::Query(error) => error,
            Error::Stopped(stopped) => stopped.into(),
            Error::Limit(text) => QueryError::Limit(text),
            other => QueryError::Invalid(other.to_string()),
        })?;
        let found = each_series(&body);
        self.sent += found.len() as u64;
        let mut framed = Vec::with_capacity(body.len() + found.len());
        for message in found {
            framed.extend_from_slice(&grpc::prefix(message.len()));
            framed.extend_from_slice(message);
        }
        Ok(framed)
    }
}

impl Writing for Messages {
    fn piece(&mut self) -> BoxFuture<'_, Result<Vec<u8>, QueryError>> {
        Box::pin(self.next())
    }

    fn is_over(&self) -> bool {
        self.series.is_over()
    }

    fn entries(&self) -> u64 {
        self.sent
    }
}
