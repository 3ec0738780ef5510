//! The HTTP server: accept loop, routes, APIs of Loki, Prometheus, Graphite and OpenTelemetry, operations.
//!
//! **What it is.** It parses requests, checks credentials ([`auth`]), bounds every wait for a client and
//! every body, and writes answers in the formats that clients expect.
//!
//! **What it is not.** It is no place for work on data: queries and writes are services of `sandur_service`,
//! which it shares with everything that has no HTTP.
//!
//! **Life of a request.** [`Acceptor`] reads the head within its timeout and passes the request to the
//! router, which is made from the table [`routes`]. The [`Gate`] of the listener checks the credential
//! against the route's scope before anything else of the request is read. A handler reads the caller and
//! the parameters ([`call`]) and the body within its bounds ([`body`]), calls the services of queries and
//! writes (`sandur_service`), and writes the answer ([`marshal`], [`reply`]). Every failure is a
//! [`Failure`].

mod accept;
mod alertmanager;
mod app;
pub mod auth;
mod body;
mod call;
mod connection;
mod dashboard_folder;
mod explorer;
mod exposition;
mod failed_request;
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
mod process_metrics;
mod prometheus;
mod receive;
mod reference;
mod refused_parts;
mod reply;
mod role_gate;
mod route;
mod router;
mod routes;
mod rules;
pub mod scrape_state;
mod server_metrics;
mod sniffed;
mod socket_headers;
mod streams;
mod timed_stream;
mod tls;
mod unread_body;
mod warned;
pub mod write;
mod written;

pub use accept::Acceptor;
pub use app::{App, AppState};
pub use connection::Served;
pub use dashboard_folder::DashboardFolder;
pub use failed_request::Failure;
pub use gate::Gate;
pub use host::OwnNames;
pub use operations::metrics::metrics_page;
pub use operations::without_secrets;
pub use params::timestamp;
pub use reference::http_api_page;
pub use route::{Access, Group, Parameter, Route, Surface, Verb};
pub use router::router;
pub use routes::ROUTES;
pub use server_metrics::ServerMetrics;
pub use tls::{Tls, TlsError};
