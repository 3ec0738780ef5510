//! Rules and alerts with their states, in Prometheus's format.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use sandur_model::TenantId;
use sandur_rules::stored::StoredRules;
use sandur_rules::{AskingRulers, OtherRulers, RuleSpec, RulesShown, StatesEverywhere};
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
    does: "Rules of files and stored rules of the tenant, with their states and alerts, in Prometheus' \
           format; `evaluator` of a group is the node that evaluates it. Other processes are asked for \
           the states of their groups over calls of peers (`cluster.secret_file`, \
           [rules.md](../rules.md#several-processes-on-one-bucket)). States that are not known, files that \
           are not in use because of an error, and damaged stored rules, are warnings.",
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
    does: "Alerts that are pending or firing, in Prometheus' format. Other processes are asked for the \
           alerts of their groups as for `/api/v1/rules`; alerts that are not known are warnings.",
    answers: "200, `{\"alerts\":[{\"labels\",\"annotations\",\"state\",\"activeAt\",\"value\"},..]}` as \
              `data`.",
    handler: |request, app| alerts.call(request, app),
    ..Route::of(Group::Rules)
};

type Others = State<Arc<dyn OtherRulers>>;

async fn rules(
    State(queries): State<Queries>,
    State(shown): State<RulesShown>,
    State(stored): State<StoredRules>,
    others: Others,
    call: Call,
) -> Result<Response, Refused> {
    let filter = Filter::of(&call, &queries).await?;
    let tenant = &call.caller.tenant;
    let Page { groups, next } = filter.page(shown.groups(tenant))?;
    let (without_alerts, budget) = (filter.without_alerts, &shown.memory_for_others(queries.memory()));
    let asking = AskingRulers { rulers: &*others.0, budget, tenant, without_alerts };
    let mut states = asking.complete(groups).await;
    let error = |file: sandur_rules::FileShown| Some(format!("{}: {}", file.path, file.error?));
    let broken = shown.files(tenant).into_iter().chain(stored.shown(tenant)).filter_map(error);
    states.warnings.splice(0..0, broken);
    let pieces = GroupList::new(states, &filter, next);
    Ok(in_pieces(queries.env(), &call, JSON, pieces, |_| ()).await)
}

async fn alerts(
    State(queries): State<Queries>,
    State(shown): State<RulesShown>,
    others: Others,
    call: Call,
) -> Response {
    let states = alerting_groups((&shown, &queries), &*others.0, &call.caller.tenant).await;
    in_pieces(queries.env(), &call, JSON, AlertList::new(states), |_| ()).await
}

/// The groups of a tenant that have alerting rules, with the states that are known in all processes.
pub async fn alerting_groups(
    (shown, queries): (&RulesShown, &Queries),
    rulers: &dyn OtherRulers,
    tenant: &TenantId,
) -> StatesEverywhere {
    let mut groups = shown.groups(tenant);
    groups.retain(|group| group.spec.rules.iter().any(RuleSpec::is_alerting));
    let budget = &shown.memory_for_others(queries.memory());
    let asking = AskingRulers { rulers, budget, tenant, without_alerts: false };
    asking.complete(groups).await
}
