//! The HTTP side: accept loop, routes, Loki's API, operations.
//!
//! **Life of a request.** [`Acceptor`] reads the head within its timeout and hands the request to the
//! router, which is made from the table [`routes`]. The [`Gate`] of the listener decides by the route's
//! scope whether the client may ask at all, before anything else of the request is looked at. A handler
//! takes the tenant and the parameters ([`call`]), bounds the body ([`body`]), calls the engine or the
//! query language through [`crate::wiring`] and the seams of [`AppState`], and writes the answer
//! ([`marshal`], [`reply`]). Every failure is a [`Failure`].

mod accept;
mod admission;
mod app;
mod body;
pub(crate) mod call;
mod connection;
mod decoding;
mod delete_requests;
pub(crate) mod escaping;
pub(crate) mod exposition;
mod gate;
mod gated;
mod graphite;
mod grpc;
mod host;
mod http2_heads;
mod legacy;
mod loki;
mod marshal;
mod operations;
mod params;
mod prometheus;
mod query_log;
mod reference;
mod refusal_log;
mod refused_parts;
mod reply;
mod route;
mod router;
mod routes;
mod rules;
pub mod scrape_state;
mod sniffed;
mod streams;
mod timed_stream;
mod tls;
mod unread_body;
mod warned;
pub mod write;
mod written;

pub use crate::failed_request::Failure;
pub use crate::server_metrics::ServerMetrics;
pub use accept::Acceptor;
pub use admission::{Connections, Phase, Place};
pub use app::{App, AppState, BlockShown, Followers, Intake};
pub(crate) use body::{Received, lasting_parties, parties};
pub(crate) use decoding::{BodyHeaders, Decoded, decode_in_memory, receive};
pub use delete_requests::{DeleteShown, Deletes, no_such_delete};
pub use gate::Gate;
pub use host::OwnNames;
pub use operations::without_secrets;
pub use params::timestamp;
pub use query_log::LinesBehind;
pub use reference::http_api_page;
pub use refusal_log::RefusalLog;
pub use route::{Access, Group, Parameter, Route, Surface, Verb};
pub use router::router;
pub use routes::ROUTES;
pub use tls::{Tls, TlsError};
