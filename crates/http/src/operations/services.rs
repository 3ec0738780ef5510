//! `services`: the parts of the process, with Loki's names, and their states.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;

use crate::app::App;
use crate::reply;
use crate::route::{Access, GET, Group, Route};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/services"],
    group: Group::Operations,
    scope: Access::Credential,
    does: "Parts of the process, with Loki's names, and their states.",
    parameters: &[],
    answers: "200, a line `name => Running` or `name => Stopping` per part.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, services),
};

async fn services(State(app): State<App>) -> Response {
    let state = if app.is_ready() { "Running" } else { "Stopping" };
    let names = ["server", "distributor", "ingester", "querier", "compactor"];
    reply::text(names.iter().map(|n| format!("{n} => {state}\n")).collect::<String>())
}
