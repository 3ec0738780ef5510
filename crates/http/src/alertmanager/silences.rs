//! Silences of a tenant.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use sandur_rules::data::Instant;
use sandur_rules::silence::{LabelFilter, Posted, SilenceMatcher, SilenceState};
use sandur_service::writes::parties;
use serde::Deserialize;
use serde_json::{Value, json};

use super::failed::Failed;
use super::json;
use crate::app::App;
use crate::body::BodyLimits;
use crate::call::{self, Call};
use crate::prometheus::reply::JSON;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, POST, Parameter, Route, Verb, parameter};

/// The largest body of a silence, whose texts have at most 16 KiB.
const BODY_BYTES_MAX: u64 = 128 << 10;
const BASE: &[Parameter] = &[parameter(
    "base",
    "`previous`: if the stored rules and silences of the tenant are damaged, go on from those before the \
     last change",
)];

/// The silences.
pub static LIST: Route = Route {
    methods: GET,
    paths: &["/alertmanager/api/v2/silences"],
    scope: Access::RulesRead,
    does: "Silences of the tenant, in the form of Alertmanager's API v2.",
    parameters: &[parameter("filter", "matchers that the silences have to contain; may be repeated")],
    answers: "200, a list: `id`, `status`, `matchers`, `startsAt`, `endsAt`, `updatedAt`, `createdBy`, \
              `comment`.",
    fails: "400 for an invalid filter; 500 if stored rules and silences are damaged; 503.",
    handler: |request, app| list.call(request, app),
    ..Route::of(Group::Rules)
};

/// One silence.
pub static ONE: Route = Route {
    methods: GET,
    paths: &["/alertmanager/api/v2/silence/{id}"],
    scope: Access::RulesRead,
    does: "A silence.",
    answers: "200, the silence.",
    fails: "404 if there is none; 500 if stored rules and silences are damaged; 503.",
    handler: |request, app| one.call(request, app),
    ..Route::of(Group::Rules)
};

/// Creates or changes a silence.
pub static CREATE: Route = Route {
    methods: POST,
    paths: &["/alertmanager/api/v2/silences"],
    scope: Access::RulesWrite,
    parameters: BASE,
    does: "Creates a silence, or changes the one whose `id` the body has. A change of the matchers or of a \
           start that is over ends the old silence and creates a new one.",
    answers: "200, `{\"silenceID\"}`: the silence is stored. This process applies it at once, others within \
              `ruler.poll_interval`.",
    fails: "400 for an invalid silence or a limit; 404 if there is none with this `id`; 413; 500 if stored \
            rules and silences are damaged; 503.",
    handler: |request, app| create.call(request, app),
    ..Route::of(Group::Rules)
};

/// Ends a silence.
pub static EXPIRE: Route = Route {
    methods: &[Verb::Delete],
    paths: &["/alertmanager/api/v2/silence/{id}"],
    scope: Access::RulesWrite,
    parameters: BASE,
    does: "Ends a silence. It is shown as expired for five days.",
    answers: "200 without a body.",
    fails: "404 if there is none; 500 if stored rules and silences are damaged; 503.",
    handler: |request, app| expire.call(request, app),
    ..Route::of(Group::Rules)
};

/// The silences in Alertmanager's order: those in force by their end, then those that begin later by their
/// start, then those that are over, the last one first.
async fn list(State(app): State<App>, call: Call) -> Result<Response, Failed> {
    let filter = LabelFilter::parse(call.params.all("filter")).map_err(Failed::invalid)?;
    let now = Instant::of_ns(app.env.now_ns());
    let (mut silences, memory) = app.stored_rules.list_silences(&call.caller.tenant).await?;
    let job = move || {
        filter.retain(&mut silences, |silence, name| silence.value_of(name))?;
        silences.sort_by_key(|silence| {
            let state = silence.state(now);
            let at = match state {
                SilenceState::Active => silence.ends_at.ns(),
                SilenceState::Pending => silence.starts_at.ns(),
                SilenceState::Expired => silence.ends_at.ns().saturating_neg(),
            };
            (state, at)
        });
        let silences: Vec<Value> = silences.iter().map(|silence| json::silence(silence, now)).collect();
        Ok(Value::from(silences).to_string().into_bytes())
    };
    let body = app.env.run_blocking(job).await.map_err(|error: String| Failed::invalid(error))?;
    Ok(reply::large(&app.env, &call, JSON, body, Some(memory)).await)
}

async fn one(State(app): State<App>, Path(id): Path<String>, call: Call) -> Result<Response, Failed> {
    let silence = app.stored_rules.silence(&call.caller.tenant, &id).await?;
    let now = Instant::of_ns(app.env.now_ns());
    Ok(reply::with_type(JSON, json::silence(&silence, now).to_string().into()))
}

/// A silence as clients send it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(default)]
    id: Option<String>,
    matchers: Vec<SilenceMatcher>,
    starts_at: String,
    ends_at: String,
    created_by: String,
    comment: String,
}

impl Body {
    fn posted(self) -> Result<Posted, Failed> {
        let time = |name: &str, text: &str| {
            json::instant(text).ok_or_else(|| Failed::invalid(format!("{name}: '{text}' is not a time")))
        };
        Ok(Posted {
            id: self.id.filter(|id| !id.is_empty()),
            starts_at: time("startsAt", &self.starts_at)?,
            ends_at: time("endsAt", &self.ends_at)?,
            matchers: self.matchers,
            created_by: self.created_by,
            comment: self.comment,
        })
    }
}

async fn create(State(app): State<App>, request: Request) -> Result<Response, Failed> {
    let (parts, body) = request.into_parts();
    let tenant = call::tenant(&app, &parts.headers)?;
    let bounds = BodyLimits {
        env: &app.env,
        size_max: BODY_BYTES_MAX,
        size_limit: "of a silence",
        idle: app.settings.http.body_idle_timeout,
        rate_min: app.settings.http.min_client_rate,
        memory: app.writes.memory(),
        parties: parties(tenant.as_str(), parts.extensions.get().copied()),
    };
    let received = bounds.read(&parts.headers, body).await?;
    let body: Body = serde_json::from_slice(&received.bytes)
        .map_err(|error| Failed::invalid(format!("the body is not a silence: {error}")))?;
    let from_previous = call::is_from_previous(parts.uri.query());
    let id = app.stored_rules.set_silence(&tenant, body.posted()?, from_previous).await?;
    Ok(reply::with_type(JSON, json!({ "silenceID": id }).to_string().into()))
}

async fn expire(
    State(app): State<App>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failed> {
    let tenant = call::tenant(&app, request.headers())?;
    let from_previous = call::is_from_previous(request.uri().query());
    app.stored_rules.expire_silence(&tenant, &id, from_previous).await?;
    Ok(reply::with_type(JSON, "".into()))
}
