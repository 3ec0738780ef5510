//! `admin/tsdb/snapshot`: refused, since there is no local database to copy.

use axum::routing::on;

use super::refused::{Kind, Refused};
use crate::call::Call;
use crate::route::{Access, Group, Route, Verb};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: &[Verb::Post, Verb::Put],
    paths: &["/api/v1/admin/tsdb/snapshot", "/prometheus/api/v1/admin/tsdb/snapshot"],
    group: Group::Metrics,
    scope: Access::Admin,
    does: "Refused: the store is a directory or a bucket of objects that never change; a copy of it after \
           `POST /flush` is a snapshot.",
    parameters: &[],
    answers: "503 `unavailable`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, snapshot),
};

async fn snapshot(_call: Call) -> Refused {
    Refused::new(
        Kind::Unavailable,
        "there is no local database to copy: ask for POST /flush, then copy the directory or the bucket \
         (docs/operations.md)",
    )
}
