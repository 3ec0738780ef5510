//! What the endpoints of Graphite's API share: access to series, the log line, the answer.

use axum::http::HeaderValue;
use axum::response::Response;
use sandur_base::BoxFuture;
use sandur_graphite::{Error, Listing, ListingRequest, Rendered, StoredSeries, Zone, parse_time};
use sandur_memory::Reservation;
use sandur_model::SECOND_NS;
use sandur_query::QueryContext;
use sandur_service::Queries;
use sandur_service::graphite::{GraphiteQuery, GraphiteRequest};
use sandur_service::query_log::Outcome;

use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::reply;
use crate::route::{Parameter, parameter};
use crate::written::{Sending, Writing, begun, written};

/// The function that JSON is wrapped in.
pub const JSONP: Parameter = parameter(
    "jsonp",
    "the JSON is wrapped in a call of this function, `name` or `a.b[0]`, at most 128 bytes; 403 for pages of \
     other sites",
);
/// Start of the range, exclusive.
pub const FROM: Parameter =
    parameter("from", "values after this: seconds since 1970, `-1h`, `noon yesterday`, ..");
/// End of the range, inclusive.
pub const UNTIL: Parameter = parameter("until", "values up to this; by default now");
/// Conditions on tags.
pub const EXPR: Parameter =
    parameter("expr", "`tag=value`, `tag!=value`, `tag=~regex` or `tag!=~regex`; may be repeated");
/// Maximum number of names.
pub const LIMIT: Parameter = parameter("limit", "maximum number of names");

/// Failures in addition to those of every route.
pub const FAILS: &str = "400: a parameter, a limit; 429; 504.";

/// A request of this kind: its text is all that parameters of these names say.
pub fn named(kind: &'static str, call: &GraphiteCall, names: &[&str]) -> GraphiteRequest {
    let texts = call.pairs.iter().filter(|(name, _)| names.contains(&name.as_str()));
    let texts: Vec<&str> = texts.map(|(_, value)| value.as_str()).collect();
    GraphiteRequest { kind, text: texts.join(" "), times: None }
}

/// A request with the times of the parameters, if there are any.
pub fn within(
    queries: &Queries,
    call: &GraphiteCall,
    request: GraphiteRequest,
) -> Result<GraphiteRequest, Failure> {
    let (now, zone) = (now(queries), Zone::utc());
    let time = |name| call.last(name).map(|text| parse_time(text, &zone, now)).transpose();
    let times = time("from").and_then(|from| Ok((from, time("until")?)));
    let (from, until) = times.map_err(|error| failure(&error))?;
    if from.is_none() && until.is_none() {
        return Ok(request);
    }
    let times = (from.map_or(0, |time| time.epoch), until.map_or(now, |time| time.epoch));
    Ok(GraphiteRequest { times: Some(times), ..request })
}

/// The current time in seconds since 1970.
pub fn now(queries: &Queries) -> i64 {
    queries.env().now_ns().div_euclid(SECOND_NS)
}

/// Runs the work of a request over the series of its tenant, logs it, and answers.
pub async fn answer(
    queries: &Queries,
    call: &GraphiteCall,
    request: GraphiteRequest,
    work: impl AsyncFnOnce(&StoredSeries<'_>, &QueryContext) -> Result<Rendered, Error>,
) -> Result<Response, Failure> {
    let (Rendered { content_type, body }, memory) = done(queries, call, request, work).await?;
    let kind = HeaderValue::from_static(content_type);
    Ok(reply::large(queries.env(), &call.call, kind, body, Some(memory)).await)
}

/// Runs the work of a request over the series of its tenant and logs it. The reservation covers the body.
pub async fn done(
    queries: &Queries,
    call: &GraphiteCall,
    request: GraphiteRequest,
    work: impl AsyncFnOnce(&StoredSeries<'_>, &QueryContext) -> Result<Rendered, Error>,
) -> Result<(Rendered, Reservation), Failure> {
    let query = GraphiteQuery::begin(queries, &call.call.caller, request);
    let outcome = query.run(work).await.map_err(|error| failure(&error));
    let GraphiteQuery { log, .. } = query;
    let answered = |(rendered, _): &(Rendered, Reservation)| Outcome::answered(rendered.body.len() as u64);
    let cost = log.cost();
    log.end(&cost, outcome.as_ref().map_or_else(Outcome::from, answered));
    outcome
}

/// Answers with a list of paths, written piece by piece while they are read.
pub async fn list(
    queries: &Queries,
    call: &GraphiteCall,
    request: GraphiteRequest,
    listed: ListingRequest,
) -> Result<Response, Failure> {
    let query = GraphiteQuery::begin(queries, &call.call.caller, request);
    let kind = HeaderValue::from_static(listed.form.content_type());
    let listing = async {
        query.check_blocked()?;
        begun(&query.context, || query.listing(listed.clone())).await
    };
    let listing = listing.await;
    let sending = sending(kind, query);
    match listing {
        Ok(begun) => Ok(written((queries.env(), &call.call), begun, sending).await),
        Err(error) => {
            sending.failed(&error);
            Err(error.into())
        }
    }
}

/// Begins an answer that is written piece by piece.
pub async fn streamed<W: Writing>(
    queries: &Queries,
    call: &GraphiteCall,
    request: GraphiteRequest,
    open: impl Fn(&QueryContext) -> W,
) -> Result<((W, Vec<u8>), Sending), Failure> {
    let query = GraphiteQuery::begin(queries, &call.call.caller, request);
    let first = async {
        query.check_blocked()?;
        begun(&query.context, || async { Ok(open(&query.context)) }).await
    };
    let first = first.await;
    let sending = sending(HeaderValue::from_static("application/grpc"), query);
    match first {
        Ok(begun) => Ok((begun, sending)),
        Err(error) => {
            sending.failed(&error);
            Err(error.into())
        }
    }
}

fn sending(kind: HeaderValue, query: GraphiteQuery) -> Sending {
    let failure = |error: &sandur_query::Error| Outcome::from(&Failure::from(error.clone()));
    let GraphiteQuery { context, log, .. } = query;
    Sending { kind, context, log, failure }
}

impl Writing for Listing {
    fn piece(&mut self) -> BoxFuture<'_, Result<Vec<u8>, sandur_query::Error>> {
        Box::pin(Self::piece(self))
    }

    fn is_over(&self) -> bool {
        Self::is_over(self)
    }

    fn entries(&self) -> u64 {
        self.count()
    }
}

/// An answer that needs no series.
pub fn known(rendered: Result<Rendered, Error>) -> Result<Response, Failure> {
    let Rendered { content_type, body } = rendered.map_err(|error| failure(&error))?;
    Ok(reply::with_type(HeaderValue::from_static(content_type), body.into()))
}

/// Converts an error of Graphite's API to a failure.
pub fn failure(error: &Error) -> Failure {
    Failure::new(error.kind(), error.to_string())
}
