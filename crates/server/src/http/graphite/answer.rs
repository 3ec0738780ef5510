//! What the endpoints share: the series of a request, its log line, its answer.

use axum::http::HeaderValue;
use axum::response::Response;
use sandur_base::{BoxFuture, Reservation};
use sandur_query::QueryContext;

use super::kept_events::KeptEvents;
use super::parameters::GraphiteCall;
use crate::failed_request::Failure;
use crate::http::app::App;
use crate::http::prometheus::visible::Visible;
use crate::http::query_log::{Asked, Outcome, QueryLog, Times};
use crate::http::reply;
use crate::http::route::{Parameter, parameter};
use crate::http::written::{Sending, Writing, begun, written};
use crate::wiring::graphite::{
    Error, Listing, ListingRequest, RenderRequest, Rendered, StoredOptions, StoredSeries, Zone, parse_time,
    render,
};

/// How JSON is wrapped.
pub const JSONP: Parameter = parameter(
    "jsonp",
    "a function that JSON is wrapped in, `name` or `a.b[0]`, at most 128 bytes; 403 for pages of other sites",
);
/// First time.
pub const FROM: Parameter =
    parameter("from", "values after this: seconds since 1970, `-1h`, `noon yesterday`, ..");
/// Last time.
pub const UNTIL: Parameter = parameter("until", "values up to this; by default now");
/// Conditions on tags.
pub const EXPR: Parameter =
    parameter("expr", "`tag=value`, `tag!=value`, `tag=~regex` or `tag!=~regex`; may stand several times");
/// Most names.
pub const LIMIT: Parameter = parameter("limit", "most names");

/// What fails beside what every route has.
pub const FAILS: &str = "400: a parameter, a limit; 429; 504.";

/// What a request is called in the log of queries.
pub struct Told {
    /// The kind of request.
    pub kind: &'static str,
    /// What it asks for.
    pub text: String,
    /// Its times in seconds; nothing: all.
    pub times: Option<(i64, i64)>,
}

impl Told {
    /// All that parameters of these names say.
    pub fn of(kind: &'static str, call: &GraphiteCall, names: &[&str]) -> Self {
        let texts = call.pairs.iter().filter(|(name, _)| names.contains(&name.as_str()));
        let texts: Vec<&str> = texts.map(|(_, value)| value.as_str()).collect();
        Self { kind, text: texts.join(" "), times: None }
    }

    /// With the times of the parameters, if there are any.
    pub fn within(self, app: &App, call: &GraphiteCall) -> Result<Self, Failure> {
        let (now, zone) = (now(app), Zone::utc());
        let time = |name| call.last(name).map(|text| parse_time(text, &zone, now)).transpose();
        let times = time("from").and_then(|from| Ok((from, time("until")?)));
        let (from, until) = times.map_err(|error| failure(&error))?;
        if from.is_none() && until.is_none() {
            return Ok(self);
        }
        let times = (from.map_or(0, |time| time.epoch), until.map_or(now, |time| time.epoch));
        Ok(Self { times: Some(times), ..self })
    }

    fn asked(&self, app: &App) -> Asked {
        let ns = |seconds: i64| seconds.saturating_mul(1_000_000_000);
        let (start_ns, end_ns) = match self.times {
            Some((from, until)) => (ns(from), ns(until)),
            None => (0, app.env.now_ns()),
        };
        Asked::graphite(self.kind, &self.text, Times { start_ns, end_ns })
    }
}

/// Seconds since 1970.
pub fn now(app: &App) -> i64 {
    app.env.now_ns().div_euclid(1_000_000_000)
}

/// Does the work of a request over the series of its tenant, logs it, and answers.
pub async fn answer(
    app: &App,
    call: &GraphiteCall,
    told: Told,
    work: impl AsyncFnOnce(&StoredSeries<'_>, &QueryContext) -> Result<Rendered, Error>,
) -> Result<Response, Failure> {
    let (Rendered { content_type, body }, memory) = done(app, call, told, work).await?;
    Ok(reply::large(app, &call.call, HeaderValue::from_static(content_type), body, Some(memory)).await)
}

/// Does the work of a request over the series of its tenant and logs it; what it made is reserved.
pub async fn done(
    app: &App,
    call: &GraphiteCall,
    told: Told,
    work: impl AsyncFnOnce(&StoredSeries<'_>, &QueryContext) -> Result<Rendered, Error>,
) -> Result<(Rendered, Reservation), Failure> {
    let context = app.metrics_context(&call.call.tenant, None);
    let log = QueryLog::begin(app, &call.call, &context, told.asked(app));
    let source = Visible::with_rollups(&*app.sources.samples);
    let events = KeptEvents(&*app.sources.logs);
    let series =
        StoredSeries::new(&source, app.graphite.now(), options(app, told.times)).with_events(&events);
    let checked = app.check_blocked(&call.call.tenant, &told.text, &call.call.tags);
    let done = async {
        checked.map_err(Error::from)?;
        let rendered = work(&series, &context).await?;
        let memory = context.budget().reserve(rendered.body.len() as u64);
        Ok((rendered, memory.map_err(sandur_query::Error::from)?))
    };
    let outcome = context.in_time(done).await.unwrap_or_else(|late| Err(late.into()));
    let cost = log.cost();
    match outcome {
        Ok((rendered, memory)) => {
            let result_bytes = rendered.body.len() as u64;
            log.end(&cost, Outcome::answered(result_bytes));
            Ok((rendered, memory))
        }
        Err(error) => {
            let failure = failure(&error);
            log.end(&cost, Outcome::from(&failure));
            Err(failure)
        }
    }
}

/// Renders what a request asks for, when there is room for it.
pub async fn rendered(
    series: &StoredSeries<'_>,
    context: &QueryContext,
    request: &RenderRequest,
) -> Result<Rendered, Error> {
    let mut room = context.room();
    loop {
        let done = render(series, context, request).await;
        if !room.is_found_after(&done).await {
            return done;
        }
    }
}

fn options(app: &App, times: Option<(i64, i64)>) -> StoredOptions {
    let query = &app.settings.query;
    StoredOptions {
        lookback: i64::try_from(query.lookback_delta.as_secs()).unwrap_or(i64::MAX),
        samples_max: query.max_samples,
        names_in: times,
    }
}

/// Lists paths piece by piece, while they are read.
pub async fn list(
    app: &App,
    call: &GraphiteCall,
    told: Told,
    request: ListingRequest,
) -> Result<Response, Failure> {
    let context = app.metrics_context(&call.call.tenant, None);
    let log = QueryLog::begin(app, &call.call, &context, told.asked(app));
    let failure = |error: &sandur_query::Error| Outcome::from(&Failure::from(error.clone()));
    let kind = HeaderValue::from_static(request.form.content_type());
    let sending = Sending { kind, context: context.clone(), log, failure };
    let checked = app.check_blocked(&call.call.tenant, &told.text, &call.call.tags);
    let listing = async {
        checked?;
        begun(&context, || opened(app, &context, &told, request.clone())).await
    };
    match listing.await {
        Ok(begun) => Ok(written((app, &call.call), begun, sending).await),
        Err(error) => {
            sending.failed(&error);
            Err(error.into())
        }
    }
}

/// Begins an answer over the series of the tenant that is written piece by piece.
pub async fn streamed<W: Writing>(
    app: &App,
    call: &GraphiteCall,
    told: Told,
    open: impl Fn(&QueryContext) -> W,
) -> Result<((W, Vec<u8>), Sending), Failure> {
    let context = app.metrics_context(&call.call.tenant, None);
    let log = QueryLog::begin(app, &call.call, &context, told.asked(app));
    let failure = |error: &sandur_query::Error| Outcome::from(&Failure::from(error.clone()));
    let kind = HeaderValue::from_static("application/grpc");
    let sending = Sending { kind, context: context.clone(), log, failure };
    let checked = app.check_blocked(&call.call.tenant, &told.text, &call.call.tags);
    let first = async {
        checked?;
        begun(&context, || async { Ok(open(&context)) }).await
    };
    match first.await {
        Ok(begun) => Ok((begun, sending)),
        Err(error) => {
            sending.failed(&error);
            Err(error.into())
        }
    }
}

/// Does something with the series of the server, of which a request asks for these times.
pub async fn over_series<T>(
    app: &App,
    times: Option<(i64, i64)>,
    work: impl AsyncFnOnce(&StoredSeries<'_>) -> T,
) -> T {
    let source = Visible::with_rollups(&*app.sources.samples);
    let events = KeptEvents(&*app.sources.logs);
    let series = StoredSeries::new(&source, app.graphite.now(), options(app, times)).with_events(&events);
    work(&series).await
}

/// A listing of paths, whose first piece is not made.
pub async fn opened(
    app: &App,
    context: &QueryContext,
    told: &Told,
    request: ListingRequest,
) -> Result<Listing, sandur_query::Error> {
    let source = Visible::with_rollups(&*app.sources.samples);
    let series = StoredSeries::new(&source, app.graphite.now(), options(app, told.times));
    context.in_time(series.listing(context, request, now(app))).await?
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

/// An answer that takes no series.
pub fn known(rendered: Result<Rendered, Error>) -> Result<Response, Failure> {
    let Rendered { content_type, body } = rendered.map_err(|error| failure(&error))?;
    Ok(reply::with_type(HeaderValue::from_static(content_type), body.into()))
}

/// What a client is told.
pub fn failure(error: &Error) -> Failure {
    Failure::new(error.kind(), error.to_string())
}
