//! HTTP: accept loop, routes, the APIs of Loki, Prometheus and Graphite, and operations.
//!
//! **Life of a request.** [`Acceptor`] reads the head within its timeout and passes the request to the
//! router, which is made from the table [`routes`]. The [`Gate`] of the listener checks the credential
//! against the route's scope before anything else of the request is read. A handler reads the caller and
//! the parameters ([`call`]) and the body within its bounds ([`body`]), calls the services of queries and
//! writes (`sandur_service`), and writes the answer ([`marshal`], [`reply`]). Every failure is a
//! [`Failure`].

mod accept;
mod admission;
mod app;
mod body;
pub(crate) mod call;
mod connection;
pub(crate) mod exposition;
mod gate;
mod gated;
mod graphite;
mod grpc;
mod host;
mod http2_heads;
mod legacy;
mod logged;
mod loki;
mod marshal;
mod operations;
mod params;
mod prometheus;
mod receive;
mod reference;
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
pub use app::{App, AppState};
pub use gate::Gate;
pub use host::OwnNames;
pub use operations::without_secrets;
pub use params::timestamp;
pub(crate) use receive::receive;
pub use reference::http_api_page;
pub use route::{Access, Group, Parameter, Route, Surface, Verb};
pub use router::router;
pub use routes::ROUTES;
pub use tls::{Tls, TlsError};
