//! Rules that are stored through the API, by namespace and group: the APIs of the rulers of Loki (LogQL) and
//! of Mimir and Cortex (PromQL).
//!
//! Both have the same requests, statuses and YAML. Rules of files are not in them, because clients such as
//! `mimirtool rules sync` delete what they do not know.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use sandur_base::ErrorKind;
use sandur_model::TenantId;
use sandur_model::go_text::quote;
use sandur_rules::Language;
use sandur_rules::stored::{Change, Listed, StoredError};
use sandur_service::writes::parties;

use super::super::{call, reply};
use crate::app::App;
use crate::body::BodyLimits;
use crate::call::Call;
use crate::failed_request::Failure;
use crate::route::{Access, GET, Group, Handler, POST, Parameter, Route, Verb, parameter};

const DELETE: &[Verb] = &[Verb::Delete];
const ACCEPTED: &str = "202, `{\"status\":\"success\",..}`: the rules are stored. This process uses them at \
                        once, others within `ruler.poll_interval`.";
const BASE: &[Parameter] = &[parameter(
    "base",
    "`previous`: if the stored rules of the tenant are damaged, go on from those before the last change",
)];

const LOGQL_NAMESPACES: &[&str] = &["/loki/api/v1/rules/{namespace}", "/api/prom/rules/{namespace}"];
const LOGQL_GROUPS: &[&str] =
    &["/loki/api/v1/rules/{namespace}/{group}", "/api/prom/rules/{namespace}/{group}"];
const PROMQL_NAMESPACES: &[&str] =
    &["/prometheus/config/v1/rules/{namespace}", "/config/v1/rules/{namespace}", "/api/v1/rules/{namespace}"];
const PROMQL_GROUPS: &[&str] = &[
    "/prometheus/config/v1/rules/{namespace}/{group}",
    "/config/v1/rules/{namespace}/{group}",
    "/api/v1/rules/{namespace}/{group}",
];

/// One of the two APIs.
trait Api {
    /// The language of its rules.
    const LANGUAGE: Language;
}

struct Loki;
struct Mimir;

impl Api for Loki {
    const LANGUAGE: Language = Language::Logql;
}

impl Api for Mimir {
    const LANGUAGE: Language = Language::Promql;
}

/// The groups of a tenant.
const LIST: Route = Route {
    methods: GET,
    scope: Access::RulesRead,
    answers: "200, YAML: `NAMESPACE: [{name, interval, rules}, ..]`.",
    fails: "404 `no rule groups found`, which clients read as an empty list; 500 if stored rules are \
            damaged; 503.",
    ..Route::of(Group::Rules)
};

/// The groups of a tenant with LogQL.
pub static LOGQL_LIST: Route = Route {
    paths: &["/loki/api/v1/rules", "/api/prom/rules"],
    does: "Stored groups of LogQL rules by namespace.",
    handler: |request, app| all_groups::<Loki>.call(request, app),
    ..LIST
};

/// The groups of a tenant with PromQL.
pub static PROMQL_LIST: Route = Route {
    paths: &["/prometheus/config/v1/rules", "/config/v1/rules"],
    does: "Stored groups of PromQL rules by namespace.",
    handler: |request, app| all_groups::<Mimir>.call(request, app),
    ..LIST
};

/// The groups of a namespace with LogQL.
pub static LOGQL_NAMESPACE: Route = Route {
    paths: LOGQL_NAMESPACES,
    does: "Stored groups of LogQL rules of one namespace.",
    handler: |request, app| groups_of_namespace::<Loki>.call(request, app),
    ..LIST
};

/// The groups of a namespace with PromQL.
pub static PROMQL_NAMESPACE: Route = Route {
    paths: PROMQL_NAMESPACES,
    does: "Stored groups of PromQL rules of one namespace.",
    handler: |request, app| groups_of_namespace::<Mimir>.call(request, app),
    ..LIST
};

/// A group.
const ONE: Route = Route {
    methods: GET,
    scope: Access::RulesRead,
    answers: "200, YAML: `name`, `interval`, `rules` and what else the group has.",
    fails: "404 `group does not exist`; 500 if stored rules are damaged; 503.",
    ..Route::of(Group::Rules)
};

/// A group with LogQL.
pub static LOGQL_GROUP: Route = Route {
    paths: LOGQL_GROUPS,
    does: "A stored group of LogQL rules.",
    handler: |request, app| one_group::<Loki>.call(request, app),
    ..ONE
};

/// A group with PromQL.
pub static PROMQL_GROUP: Route = Route {
    paths: PROMQL_GROUPS,
    does: "A stored group of PromQL rules.",
    handler: |request, app| one_group::<Mimir>.call(request, app),
    ..ONE
};

/// Stores a group.
const CREATE: Route = Route {
    methods: POST,
    scope: Access::RulesWrite,
    parameters: BASE,
    answers: ACCEPTED,
    fails: "400 for an invalid group or a limit of stored rules; 413; 500 if stored rules are \
            damaged; 503.",
    ..Route::of(Group::Rules)
};

/// Stores a group with LogQL.
pub static LOGQL_CREATE: Route = Route {
    paths: LOGQL_NAMESPACES,
    does: "Adds a group of LogQL rules, or replaces the one with its name. The body is the group as YAML.",
    handler: |request, app| create::<Loki>.call(request, app),
    ..CREATE
};

/// Stores a group with PromQL.
pub static PROMQL_CREATE: Route = Route {
    paths: PROMQL_NAMESPACES,
    does: "Adds a group of PromQL rules, or replaces the one with its name. The body is the group as YAML.",
    handler: |request, app| create::<Mimir>.call(request, app),
    ..CREATE
};

/// Deletes groups.
const REMOVE: Route =
    Route { methods: DELETE, scope: Access::RulesWrite, parameters: BASE, answers: ACCEPTED, ..LIST };

/// Deletes the LogQL groups of a namespace.
pub static LOGQL_DELETE_NAMESPACE: Route = Route {
    paths: LOGQL_NAMESPACES,
    does: "Deletes the groups of LogQL rules of a namespace.",
    fails: "404 `group namespace does not exist`; 500 if stored rules are damaged; 503.",
    handler: |request, app| delete_namespace::<Loki>.call(request, app),
    ..REMOVE
};

/// Deletes the PromQL groups of a namespace.
pub static PROMQL_DELETE_NAMESPACE: Route = Route {
    paths: PROMQL_NAMESPACES,
    does: "Deletes the groups of PromQL rules of a namespace.",
    fails: "404 `group namespace does not exist`; 500 if stored rules are damaged; 503.",
    handler: |request, app| delete_namespace::<Mimir>.call(request, app),
    ..REMOVE
};

/// Deletes a group with LogQL.
pub static LOGQL_DELETE_GROUP: Route = Route {
    paths: LOGQL_GROUPS,
    does: "Deletes a group of LogQL rules.",
    fails: "404 `group does not exist`; 500 if stored rules are damaged; 503.",
    handler: |request, app| delete_group::<Loki>.call(request, app),
    ..REMOVE
};

/// Deletes a group with PromQL.
pub static PROMQL_DELETE_GROUP: Route = Route {
    paths: PROMQL_GROUPS,
    does: "Deletes a group of PromQL rules.",
    fails: "404 `group does not exist`; 500 if stored rules are damaged; 503.",
    handler: |request, app| delete_group::<Mimir>.call(request, app),
    ..REMOVE
};

async fn all_groups<A: Api>(State(app): State<App>, call: Call) -> Result<Response, Failure> {
    let listed = app.stored_rules.list(&call.caller.tenant, A::LANGUAGE, None).await.map_err(failed)?;
    list(&app, &call, listed).await
}

async fn groups_of_namespace<A: Api>(
    State(app): State<App>,
    Path(namespace): Path<String>,
    call: Call,
) -> Result<Response, Failure> {
    let tenant = &call.caller.tenant;
    let listed = app.stored_rules.list(tenant, A::LANGUAGE, Some(&namespace)).await.map_err(failed)?;
    list(&app, &call, listed).await
}

async fn list(app: &App, call: &Call, listed: Listed) -> Result<Response, Failure> {
    let Listed { namespaces, memory } = listed;
    if namespaces.is_empty() {
        return Err(Failure::new(ErrorKind::NotFound, "no rule groups found\n"));
    }
    let mut text = String::new();
    for (namespace, groups) in namespaces {
        text.push_str(&quote(&namespace));
        text.push_str(":\n");
        groups.iter().for_each(|group| push_item(&mut text, group));
    }
    Ok(reply::large(&app.env, call, YAML, text.into_bytes(), Some(memory)).await)
}

const YAML: HeaderValue = HeaderValue::from_static("application/yaml");

/// Writes a group as an item of a list.
fn push_item(text: &mut String, group: &Arc<str>) {
    for (n, line) in group.lines().enumerate() {
        text.push_str(if n == 0 { "    - " } else { "      " });
        text.push_str(line);
        text.push('\n');
    }
}

async fn one_group<A: Api>(
    State(app): State<App>,
    Path((namespace, name)): Path<(String, String)>,
    call: Call,
) -> Result<Response, Failure> {
    let group = app.stored_rules.group(&call.caller.tenant, A::LANGUAGE, (&namespace, &name));
    let text = group.await.map_err(failed)?;
    Ok(reply::with_type(YAML, text.as_bytes().to_vec().into()))
}

async fn create<A: Api>(
    State(app): State<App>,
    Path(namespace): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let tenant = call::tenant(&app, &parts.headers)?;
    let limits = app.queries.limits(&tenant);
    let bounds = BodyLimits {
        env: &app.env,
        size_max: limits.ruler_max_rule_group_size,
        size_limit: "limits.ruler_max_rule_group_size",
        idle: app.settings.http.body_idle_timeout,
        rate_min: app.settings.http.min_client_rate,
        memory: app.writes.memory(),
        parties: parties(tenant.as_str(), parts.extensions.get().copied()),
    };
    let received = bounds.read(&parts.headers, body).await?;
    let text = std::str::from_utf8(&received.bytes).map(str::to_owned);
    let text = text.map_err(|error| Failure::invalid(format!("the group is not UTF-8: {error}\n")))?;
    let change = change::<A>(&tenant, &namespace, parts.uri.query());
    app.stored_rules.set_group(change, text, &limits).await.map_err(failed)?;
    Ok(accepted())
}

async fn delete_namespace<A: Api>(
    State(app): State<App>,
    Path(namespace): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let tenant = call::tenant(&app, request.headers())?;
    let change = change::<A>(&tenant, &namespace, request.uri().query());
    app.stored_rules.delete_namespace(change).await.map_err(failed)?;
    Ok(accepted())
}

async fn delete_group<A: Api>(
    State(app): State<App>,
    Path((namespace, name)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Failure> {
    let tenant = call::tenant(&app, request.headers())?;
    let change = change::<A>(&tenant, &namespace, request.uri().query());
    app.stored_rules.delete_group(change, &name).await.map_err(failed)?;
    Ok(accepted())
}

fn change<'a, A: Api>(tenant: &'a TenantId, namespace: &'a str, query: Option<&str>) -> Change<'a> {
    let from_previous = call::is_from_previous(query);
    Change { tenant, language: A::LANGUAGE, namespace, from_previous }
}

/// The answer of Loki and Mimir to a change.
fn accepted() -> Response {
    let body = "{\"status\":\"success\",\"data\":null,\"errorType\":\"\",\"error\":\"\"}";
    let mut response = reply::with_type(HeaderValue::from_static("application/json"), body.into());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// A failure as Loki and Mimir answer it: plain text that ends with a line break.
fn failed(error: StoredError) -> Failure {
    Failure::new(error.kind(), format!("{error}\n")).with_outcome(error.may_be_done())
}
