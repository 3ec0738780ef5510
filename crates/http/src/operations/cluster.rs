//! `sandur/cluster`: the nodes that share the store, and how one of them leaves.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use futures_util::future::join;
use sandur_base::ErrorKind;
use sandur_model::Role;
use sandur_service::{ClusterShown, NodeShown, OtherProcesses, UsageShown, Writes, usage_everywhere};
use serde_json::{Map, Value, json};

use crate::failed_request::Failure;
use crate::params::Params;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, POST, Route, parameter};

/// The row of the report in the table of routes.
pub static STATUS: Route = Route {
    methods: GET,
    paths: &["/sandur/cluster"],
    scope: Access::Admin,
    does: "The nodes that share the store, as this process sees them: zones, roles, versions, since when \
           they run, how fresh they are, what they own, and what their requests to the store cost \
           ([cluster.md](../cluster.md#seeing-the-cluster)).",
    answers: "200, JSON: `{\"node\", \"catalog\", \"catalog_age_ms\", \"writes\", \"held\", \
              \"unowned_roles\", \"nodes\": [{\"id\", \"zone\", \"roles\", \"state\", \"version\", \
              \"silent_ms\", \"rows_age_ms\", \"store_requests\", \"dollars\", \"unanswered\", ..}]}`. \
              `rows_age_ms`: how long ago the process that answers knew all rows that the listed \
              process had acknowledged. `store_requests` and `dollars` are `null` if the listed process did \
              not answer a call; `unanswered` says why, and is `null` if it was not asked because it has \
              ended.",
    handler: |request, app| status.call(request, app),
    ..Route::of(Group::Operations)
};

/// The row of draining in the table of routes.
pub static DRAIN: Route = Route {
    methods: POST,
    paths: &["/sandur/cluster/drain"],
    scope: Access::Admin,
    does: "Lets a node leave: others take over its work at once, it flushes, and `/ready` of it answers 503. \
           It still takes pushes and answers queries until it is stopped.",
    parameters: &[
        parameter("node", "the id of the node; by default the node that answers"),
        parameter("undo", "`true`: the node stays"),
    ],
    answers: "204. The node that answers has then flushed; another one begins to when it has read the \
              catalog.",
    fails: "404: no live node has this id, or an older program is registered, which could not read it; \
            503 when the store cannot be written.",
    handler: |request, app| drain.call(request, app),
    ..Route::of(Group::Operations)
};

async fn status(State(writes): State<Writes>, State(others): State<Arc<dyn OtherProcesses>>) -> Response {
    let (usage, cluster) = join(usage_everywhere(&*others), writes.intake().cluster()).await;
    let usage = usage.into_iter().map(|(name, said)| (name.process.to_string(), said)).collect();
    let shown = of_cluster(&cluster, &usage).to_string();
    reply::json(shown.into_bytes())
}

async fn drain(State(writes): State<Writes>, params: Params) -> Result<Response, Failure> {
    let leaves = match params.get("undo") {
        None | Some("" | "false") => true,
        Some("true") => false,
        Some(_) => return Err(Failure::invalid("undo is neither 'true' nor 'false'\n")),
    };
    let node = params.get("node").filter(|node| !node.is_empty());
    if !writes.intake().drain(node, leaves).await? {
        let text = "no live node has this id, or a program is registered that cannot read it; see \
                    /sandur/cluster\n";
        return Err(Failure::new(ErrorKind::NotFound, text));
    }
    Ok(reply::empty())
}

/// What each process said about its requests to the store, by the id of the process.
type Usage = HashMap<String, Result<UsageShown, String>>;

fn of_cluster(cluster: &ClusterShown, usage: &Usage) -> Value {
    json!({
        "node": cluster.node,
        "catalog": cluster.catalog,
        "catalog_age_ms": millis(cluster.catalog_age),
        "writes": cluster.writes,
        "held": cluster.is_held,
        "unowned_roles": cluster.unowned.iter().map(|role| role.name()).collect::<Vec<&str>>(),
        "nodes": cluster.nodes.iter().map(|node| of_node(node, usage)).collect::<Vec<Value>>(),
    })
}

fn of_node(node: &NodeShown, usage: &Usage) -> Value {
    let said = usage.get(&node.incarnation);
    let known = said.and_then(|usage| usage.as_ref().ok());
    let roles: Vec<&str> =
        Role::ALL.into_iter().filter(|role| node.roles.has(*role)).map(Role::name).collect();
    let share =
        |(role, percent): &(Role, f64)| (role.name().to_owned(), json!((percent * 100.0).round() / 100.0));
    json!({
        "id": node.id,
        "zone": node.zone,
        "roles": roles,
        "state": node.state,
        "version": node.version,
        "reads": node.reads,
        "edits": node.edits,
        "host": node.host,
        "address": node.address,
        "incarnation": node.incarnation,
        "started_ms": node.started_ms,
        "cache_bytes": node.cache_bytes,
        "silent_ms": node.silent_for.map(millis),
        "catalog": node.catalog,
        "member": node.is_member,
        "shares_percent": node.shares.iter().map(share).collect::<Map<String, Value>>(),
        "windows": node.windows,
        "rows_age_ms": node.rows_age.map(millis),
        "rows_missing": node.rows_missing,
        "store_requests": known.map(|usage| usage.requests),
        "dollars": known.map(|usage| usage.dollars),
        "dollars_per_month": known.map(|usage| usage.dollars_per_month),
        "unanswered": said.and_then(|usage| usage.as_ref().err()),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
