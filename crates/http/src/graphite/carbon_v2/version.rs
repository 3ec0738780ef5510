//! `CarbonV2/Version`: the version of the protocol.

use axum::response::Response;
use axum::routing::on;

use super::{FAILS, Opened};
use crate::grpc;
use crate::route::{Access, Group, POST, Route};

/// The row of this call in the table of routes.
pub static ROUTE: Route = Route {
    methods: POST,
    paths: &["/carbonapi_v2_grpc.CarbonV2/Version"],
    group: Group::Graphite,
    scope: Access::Credential,
    does: "The version of carbonapi's protocol that carbonserver's gRPC uses.",
    parameters: &[],
    answers: "`OK` and a `ProtocolVersionResponse` of `2`.",
    fails: FAILS,
    several_tenants: false,
    handler: |verbs| on(verbs, version),
};

async fn version(Opened(call): Opened) -> Response {
    match call {
        Ok(_) => grpc::answer(b"\x0a\x012"),
        Err(failure) => grpc::failure(&failure),
    }
}
