//! A route: one endpoint, as a row of the table that the router and the reference page are made from.

use axum::extract::Request;
pub use axum::handler::Handler;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodFilter;
use sandur_base::BoxFuture;

use super::app::App;
use crate::auth::Scope;

/// One endpoint.
pub struct Route {
    /// The methods of the endpoint; all others answer 405 with an empty body.
    pub methods: &'static [Verb],
    /// Its paths: the usual one first, then its aliases.
    pub paths: &'static [&'static str],
    /// The chapter of the reference that lists it.
    pub group: Group,
    /// The required scope, checked before a parameter or a byte of the body is read.
    pub scope: Access,
    /// Whether a request with these headers needs no credential, whatever the scope: it gets an answer
    /// that anyone may have.
    pub open_to: fn(&HeaderMap) -> bool,
    /// Its purpose, in a sentence.
    pub does: &'static str,
    /// Parameters of the URL or of a form.
    pub parameters: &'static [Parameter],
    /// Status and body of a successful answer.
    pub answers: &'static str,
    /// Failures of its own, in addition to those of its group.
    pub fails: &'static str,
    /// Whether a request may name several tenants.
    pub several_tenants: bool,
    /// Answers a request: `|request, app| handler.call(request, app)`. All routes have this one type, so that
    /// the router and its layers are compiled once and not once for each handler.
    pub handler: fn(Request, App) -> BoxFuture<'static, Response>,
}

impl Route {
    /// The defaults of a route: no parameters, no failures of its own, one tenant.
    pub const fn of(group: Group) -> Self {
        Self {
            methods: GET,
            paths: &[],
            group,
            scope: Access::Admin,
            open_to: |_| false,
            does: "",
            parameters: &[],
            answers: "",
            fails: "",
            several_tenants: false,
            handler: |_, _| Box::pin(async { StatusCode::METHOD_NOT_ALLOWED.into_response() }),
        }
    }
}

/// The credential that a route requires when credentials are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// None: the route only shows that the process lives.
    Open,
    /// Any credential, whatever its scopes.
    Credential,
    /// A credential with the scope `read`.
    Read,
    /// A credential with the scope `write`.
    Write,
    /// A credential with the scope `delete`.
    Delete,
    /// A credential with the scope `rules:read`.
    RulesRead,
    /// A credential with the scope `rules:write`.
    RulesWrite,
    /// A credential with the scope `admin`.
    Admin,
}

impl Access {
    /// The scope that the credential must have.
    pub fn scope(self) -> Option<Scope> {
        match self {
            Self::Open | Self::Credential => None,
            Self::Read => Some(Scope::Read),
            Self::Write => Some(Scope::Write),
            Self::Delete => Some(Scope::Delete),
            Self::RulesRead => Some(Scope::RulesRead),
            Self::RulesWrite => Some(Scope::RulesWrite),
            Self::Admin => Some(Scope::Admin),
        }
    }

    /// The name as a label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Credential => "any",
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::RulesRead => "rules:read",
            Self::RulesWrite => "rules:write",
            Self::Admin => "admin",
        }
    }

    /// Whether the route changes stored data or the state of the process.
    pub fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Delete | Self::RulesWrite | Self::Admin)
    }
}

/// Which routes a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// All routes: the process has one listener.
    Whole,
    /// All routes except those of the listener for operators.
    Data,
    /// Routes with the scope `admin` or `delete`, and those without a scope.
    Operators,
    /// The routes of gRPC.
    Grpc,
}

impl Surface {
    /// Whether the route is served here.
    pub fn serves(self, route: &Route) -> bool {
        let operators = matches!(route.scope, Access::Admin | Access::Delete);
        match self {
            Self::Whole => true,
            Self::Data => !operators,
            Self::Operators => operators || route.scope.scope().is_none(),
            Self::Grpc => route.paths.iter().all(|path| {
                let packages = ["/opentelemetry.", "/carbonapi_v2_grpc."];
                packages.iter().any(|package| path.starts_with(package))
            }),
        }
    }
}

/// Marks, as an extension, a request that may name several tenants.
#[derive(Clone, Copy, Debug)]
pub struct OfSeveral;

/// A method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `GET`, and `HEAD` with it.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
}

/// For routes with parameters in the URL.
pub const GET: &[Verb] = &[Verb::Get];
/// For routes with parameters in the URL or in a form.
pub const GET_POST: &[Verb] = &[Verb::Get, Verb::Post];
/// For routes that change something.
pub const POST: &[Verb] = &[Verb::Post];

/// Chapters of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Pushes.
    Write,
    /// Queries of logs.
    Query,
    /// Prometheus's API over samples.
    Metrics,
    /// Graphite's API over samples.
    Graphite,
    /// Labels, series and sizes.
    Index,
    /// Choices that Grafana and Logs Drilldown offer in their user interface.
    Discovery,
    /// Requests to delete lines.
    Deletes,
    /// Recording and alerting rules.
    Rules,
    /// Paths of Loki before version 1.
    Legacy,
    /// Routes for operators.
    Operations,
}

impl Group {
    /// All groups, in the order of the reference.
    pub const ALL: [Self; 10] = [
        Self::Write,
        Self::Query,
        Self::Metrics,
        Self::Graphite,
        Self::Index,
        Self::Discovery,
        Self::Deletes,
        Self::Rules,
        Self::Legacy,
        Self::Operations,
    ];

    /// Title of the chapter.
    pub fn title(self) -> &'static str {
        match self {
            Self::Write => "Write",
            Self::Query => "Query",
            Self::Metrics => "Metrics",
            Self::Graphite => "Graphite",
            Self::Index => "Labels, series and sizes",
            Self::Discovery => "Discovery",
            Self::Deletes => "Deletes",
            Self::Rules => "Rules",
            Self::Legacy => "Legacy paths",
            Self::Operations => "Operations",
        }
    }
}

/// A parameter of a route.
pub struct Parameter {
    /// Name of the parameter.
    pub name: &'static str,
    /// Values, default and meaning.
    pub help: &'static str,
}

/// Makes a parameter from its name and help.
pub const fn parameter(name: &'static str, help: &'static str) -> Parameter {
    Parameter { name, help }
}

/// The text of a LogQL query.
pub const QUERY: Parameter = parameter("query", "LogQL; required");
/// An optional selector.
pub const SELECTOR: Parameter = parameter("query", "a selector, `{app=\"api\"}`; by default every stream");
/// Start of the range.
pub const START: Parameter = parameter("start", "first instant; by default `since` before `end`");
/// End of the range.
pub const END: Parameter = parameter("end", "last instant; by default now");
/// Length of the range, if there is no start.
pub const SINCE: Parameter = parameter("since", "length of the range when there is no `start`; `1h`");
/// Distance between points.
pub const STEP: Parameter =
    parameter("step", "seconds or a duration; by default a 250th of the range, at least 1 s");
/// The segment of a path that is the name of a label or field.
pub const NAME: Parameter = parameter("{name}", "part of the path: the name");

impl Verb {
    /// The method as it is written in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// The filter of axum for the method.
    pub fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}
