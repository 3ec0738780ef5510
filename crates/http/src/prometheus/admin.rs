//! `admin/tsdb`: what a store of immutable objects does not need.

use axum::response::Response;

use super::refused::{Kind, Refused};
use crate::call::Call;
use crate::reply;
use crate::route::{Access, Group, Handler, Route, Verb};

/// Accepted without effect; deleted samples are removed in the background.
pub static CLEAN_TOMBSTONES: Route = Route {
    methods: &[Verb::Post, Verb::Put],
    paths: &["/api/v1/admin/tsdb/clean_tombstones", "/prometheus/api/v1/admin/tsdb/clean_tombstones"],
    scope: Access::Admin,
    does: "Accepted for compatibility, without effect: deleted samples are removed from the store in the \
           background, after `compaction.delete_request_cancel_period`.",
    answers: "204.",
    handler: |request, app| clean.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn clean(_call: Call) -> Response {
    reply::empty()
}

/// Refused, since there is no local database to copy.
pub static SNAPSHOT: Route = Route {
    methods: &[Verb::Post, Verb::Put],
    paths: &["/api/v1/admin/tsdb/snapshot", "/prometheus/api/v1/admin/tsdb/snapshot"],
    scope: Access::Admin,
    does: "Refused: the store is a directory or a bucket of objects that never change; a copy of it after \
           `POST /flush` is a snapshot.",
    answers: "503 `unavailable`.",
    handler: |request, app| snapshot.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn snapshot(_call: Call) -> Refused {
    Refused::new(
        Kind::Unavailable,
        "there is no local database to copy: ask for POST /flush, then copy the directory or the bucket \
         (docs/operations.md)",
    )
}
