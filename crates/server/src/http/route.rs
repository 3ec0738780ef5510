//! A route: one endpoint as a row of a table, which the router and the reference page are made from.

use axum::routing::{MethodFilter, MethodRouter};

use super::app::App;
use crate::auth::Scope;

/// One endpoint.
pub struct Route {
    /// Methods that it takes; all others answer 405 with an empty body.
    pub methods: &'static [Verb],
    /// Its paths: the usual one first, then others that mean the same.
    pub paths: &'static [&'static str],
    /// Where it stands in the reference.
    pub group: Group,
    /// Who may ask. Checked before a parameter or a byte of the body is read.
    pub scope: Access,
    /// What it does, in a sentence.
    pub does: &'static str,
    /// Parameters of the URL or of a form.
    pub parameters: &'static [Parameter],
    /// Status and shape of a good answer.
    pub answers: &'static str,
    /// Its own failures beside those that the group has.
    pub fails: &'static str,
    /// Whether it may be asked of several tenants at once.
    pub several_tenants: bool,
    /// The handler for these methods: `|verbs| on(verbs, handler)`.
    pub handler: fn(MethodFilter) -> MethodRouter<App>,
}

/// Who may ask a route when credentials are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every client: it tells nothing but that the process lives.
    Open,
    /// Every credential, whatever its scopes.
    Credential,
    /// Credentials with the scope `read`.
    Read,
    /// Credentials with the scope `write`.
    Write,
    /// Credentials with the scope `delete`.
    Delete,
    /// Credentials with the scope `admin`.
    Admin,
}

impl Access {
    /// The scope that a credential must have.
    pub fn scope(self) -> Option<Scope> {
        match self {
            Self::Open | Self::Credential => None,
            Self::Read => Some(Scope::Read),
            Self::Write => Some(Scope::Write),
            Self::Delete => Some(Scope::Delete),
            Self::Admin => Some(Scope::Admin),
        }
    }

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Credential => "any",
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Admin => "admin",
        }
    }

    /// Whether it changes what is stored or how the process runs.
    pub fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Delete | Self::Admin)
    }
}

/// Which routes a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// All: there is one listener.
    Whole,
    /// All but those of the listener for operators.
    Data,
    /// What needs the scope `admin` or `delete`, and what needs no scope.
    Operators,
    /// What is asked by gRPC.
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

/// Stands in the extensions of a request that may be asked of several tenants at once.
#[derive(Clone, Copy, Debug)]
pub struct OfSeveral;

/// A method that a route may take.
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

/// Reads with parameters in the URL.
pub const GET: &[Verb] = &[Verb::Get];
/// Reads with parameters in the URL or in a form.
pub const GET_POST: &[Verb] = &[Verb::Get, Verb::Post];
/// Changes something.
pub const POST: &[Verb] = &[Verb::Post];

/// Chapters of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Pushes.
    Write,
    /// Queries of lines and of metrics.
    Query,
    /// Prometheus's API over samples.
    Metrics,
    /// Graphite's API over samples.
    Graphite,
    /// Labels, series and sizes.
    Index,
    /// What Grafana and Logs Drilldown ask to offer choices.
    Discovery,
    /// Requests to delete lines.
    Deletes,
    /// Recording and alerting rules.
    Rules,
    /// Paths of Loki before its version 1.
    Legacy,
    /// For those who run the server.
    Operations,
}

impl Group {
    /// All, in the order of the reference.
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
    /// Its name.
    pub name: &'static str,
    /// Values, default, meaning.
    pub help: &'static str,
}

/// A parameter and what it means.
pub const fn parameter(name: &'static str, help: &'static str) -> Parameter {
    Parameter { name, help }
}

/// The text of a query.
pub const QUERY: Parameter = parameter("query", "LogQL; required");
/// A selector that narrows.
pub const SELECTOR: Parameter = parameter("query", "a selector, `{app=\"api\"}`; without it every stream");
/// First instant.
pub const START: Parameter = parameter("start", "first instant; by default `since` before `end`");
/// Last instant.
pub const END: Parameter = parameter("end", "last instant; by default now");
/// Length of the range.
pub const SINCE: Parameter = parameter("since", "length of the range when there is no `start`; `1h`");
/// Distance of points.
pub const STEP: Parameter =
    parameter("step", "seconds or a duration; by default a 250th of the range, at least 1 s");
/// Path segment with a name of a label or field.
pub const NAME: Parameter = parameter("{name}", "part of the path: the name");

impl Verb {
    /// As it stands in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// What axum calls it.
    pub fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}
