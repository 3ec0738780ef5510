//! carbonserver's gRPC: the service `CarbonV2` of carbonapi's second protocol, whose messages are the
//! same as over HTTP. One file per call.

use std::convert::Infallible;

use axum::extract::{FromRequest, Request};
use axum::response::Response;
use sandur_base::Reservation;
use sandur_graphite::Rendered;

use super::parameters::GraphiteCall;
use crate::app::App;
use crate::failed_request::Failure;
use crate::grpc;

pub mod find;
pub mod info;
pub mod list;
pub mod render;
pub mod stats;
pub mod version;

/// Failures in addition to those of every call.
pub const FAILS: &str = "`INVALID_ARGUMENT`: an invalid message, a limit; `RESOURCE_EXHAUSTED`; \
                         `UNAVAILABLE`. 401 and 403 as for `LogsService/Export`.";

/// The message of a call, or why it cannot be read: that is answered in the trailers of gRPC.
pub struct Opened(pub Result<GraphiteCall, Failure>);

impl FromRequest<App> for Opened {
    type Rejection = Infallible;

    async fn from_request(request: Request, app: &App) -> Result<Self, Infallible> {
        let opened = async {
            let request = grpc::open(&app.env, app.settings.http.body_idle_timeout, request).await?;
            GraphiteCall::from_request(request, app).await
        };
        Ok(Self(opened.await))
    }
}

/// Answers with one message.
pub fn one(outcome: Result<(Rendered, Reservation), Failure>) -> Response {
    match outcome {
        Ok((rendered, memory)) => grpc::messages(vec![rendered.body.into()], Some(memory)),
        Err(failure) => grpc::failure(&failure),
    }
}
