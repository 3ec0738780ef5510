//! Rules and alerts with their states, in Prometheus's format.

use axum::extract::State;
use axum::response::Response;
use sandur_rules::RulesShown;
use sandur_rules::stored::StoredRules;
use sandur_runtime::Env;
use sandur_service::Queries;

use super::body::{AlertList, GroupList};
use super::filter::{Filter, Page};
use crate::call::Call;
use crate::prometheus::refused::Refused;
use crate::prometheus::reply::{JSON, in_pieces};
use crate::route::{Access, GET, Group, Handler, Route, parameter};

/// Rules with their state.
pub static RULES: Route = Route {
    methods: GET,
    paths: &["/prometheus/api/v1/rules", "/api/v1/rules"],
    scope: Access::Read,
    does: "Rules of files and stored rules of the tenant, with the states and alerts of those that this \
           process evaluates, in Prometheus' format; `evaluator` of a group is the node that evaluates it. \
           Files that are not in use because of an error, and damaged stored rules, are warnings.",
    parameters: &[
        parameter("type", "`alert` or `record`"),
        parameter("rule_name[]", "names of rules; by default all"),
        parameter("rule_group[]", "names of groups; by default all"),
        parameter("file[]", "paths of files; by default all"),
        parameter("match[]", "selectors on the labels of rules; by default all"),
        parameter("exclude_alerts", "`true`: without the alerts of each rule"),
        parameter("group_limit", "maximum number of groups"),
        parameter("group_next_token", "`groupNextToken` of the answer before"),
    ],
    answers: "200, `{\"groups\":[{\"name\",\"file\",\"interval\",\"rules\":[..],..},..],\"groupNextToken\"}` \
              as `data`.",
    fails: "400 `bad_data` for an invalid parameter.",
    handler: |request, app| rules.call(request, app),
    ..Route::of(Group::Rules)
};

/// Alerts that are pending or firing.
pub static ALERTS: Route = Route {
    methods: GET,
    paths: &["/prometheus/api/v1/alerts", "/api/v1/alerts"],
    scope: Access::Read,
    does: "Alerts that are pending or firing, in Prometheus' format.",
    answers: "200, `{\"alerts\":[{\"labels\",\"annotations\",\"state\",\"activeAt\",\"value\"},..]}` as \
              `data`.",
    handler: |request, app| alerts.call(request, app),
    ..Route::of(Group::Rules)
};

async fn rules(
    State(env): State<Env>,
    State(queries): State<Queries>,
    State(shown): State<RulesShown>,
    State(stored): State<StoredRules>,
    call: Call,
) -> Result<Response, Refused> {
    let filter = Filter::of(&call, &queries).await?;
    let tenant = &call.caller.tenant;
    let Page { groups, next } = filter.page(shown.groups(tenant))?;
    let error = |file: sandur_rules::FileShown| Some(format!("{}: {}", file.path, file.error?));
    let warnings = shown.files(tenant).into_iter().chain(stored.shown(tenant)).filter_map(error).collect();
    let pieces = GroupList::new(groups, &filter, next, warnings);
    Ok(in_pieces(&env, &call, JSON, pieces, |_| ()).await)
}

async fn alerts(State(env): State<Env>, State(shown): State<RulesShown>, call: Call) -> Response {
    let pieces = AlertList::new(shown.groups(&call.caller.tenant));
    in_pieces(&env, &call, JSON, pieces, |_| ()).await
}
