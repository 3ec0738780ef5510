//! The gate of a listener: decides whether the client may use a route, before a parameter or a byte of
//! the body is read.
//!
//! A request that passed it has in `X-Scope-OrgID` only tenants that its credential may act for: the gate
//! inserts the only tenant of a credential and refuses any other, so no handler can read a tenant that
//! was not allowed. Every route has a scope ([`super::route::Route`]), and every request passes the gate.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sandur_runtime::Env;
use url::form_urlencoded;

use super::host::OwnNames;
use super::route::{Access, Route};
use super::socket_headers::{self, ENCODING_HEADER};
use crate::auth::session_cookie::EXPLORER_HEADER;
use crate::auth::{Asked, Audit, Authority, Credential, Refusal};
use crate::failed_request::Failure;
use crate::server_metrics::ServerMetrics;

/// Header that names the tenant.
pub const TENANT_HEADER: &str = "x-scope-orgid";

/// The credential that admitted a request, for answers that last longer than a credential may be valid.
#[derive(Clone)]
pub struct Standing {
    authority: Arc<Authority>,
    credential: Arc<Credential>,
}

impl Standing {
    /// Kind and name of the credential.
    pub fn name(&self) -> &str {
        &self.credential.name
    }

    /// Whether the credential is still valid.
    pub fn holds(&self) -> bool {
        self.authority.stands(&self.credential)
    }
}

/// Checks the requests of one listener.
pub struct Gate {
    authority: Option<Arc<Authority>>,
    names: OwnNames,
    audit: Audit,
    metrics: ServerMetrics,
}

/// A route with the gate that guards it.
#[derive(Clone)]
pub struct Guarded {
    /// The gate.
    pub gate: Arc<Gate>,
    /// The route.
    pub route: &'static Route,
}

impl Gate {
    /// A gate with credentials from `authority`. Without one, every client except pages of other sites
    /// has all scopes.
    pub fn new(env: Env, authority: Option<Arc<Authority>>, names: OwnNames, metrics: ServerMetrics) -> Self {
        Self { authority, names, audit: Audit::new(env), metrics }
    }

    /// Checks a request. Writes the name of its credential to `asked`.
    async fn check(&self, route: &Route, request: &mut Request, asked: &mut Asked) -> Result<(), Refusal> {
        let access = if (route.open_to)(request.headers()) { Access::Open } else { route.scope };
        socket_headers::read(request, &[TENANT_HEADER, ENCODING_HEADER]);
        let (uri, headers) = (request.uri(), request.headers());
        self.names.check_host(uri, headers)?;
        // Browsers do not protect websockets and scripts from pages of other sites; they do protect other
        // reads.
        if access.changes() || headers.contains_key(header::UPGRADE) {
            self.names.check_origin(uri, headers)?;
        }
        if asks_for_script(uri) {
            self.names.check_script(uri, headers)?;
        }
        let Some(authority) = self.authority.as_ref().filter(|_| access != Access::Open) else {
            return Ok(());
        };
        let credential = authority.verify(headers).await?;
        asked.who.clone_from(&credential.name);
        choose_tenant(&credential, access, request.headers_mut())?;
        request.extensions_mut().insert(Standing { authority: Arc::clone(authority), credential });
        Ok(())
    }

    /// The response to a refused request; also writes the audit log.
    fn refuse(&self, asked: &Asked, refusal: &Refusal, is_page: bool) -> Response {
        self.metrics.refused_request(refusal.reason());
        self.audit.refused(asked, refusal);
        let mut response =
            Failure::invalid(format!("{refusal}\n")).with_status(status(refusal)).into_response();
        let headers = response.headers_mut();
        // A browser would show its own dialog for `Basic`; the explorer asks for a token itself.
        for challenge in challenges(refusal).iter().take(if is_page { 1 } else { usize::MAX }) {
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }
}

/// Whether the answer may be JSONP, on any route, so that a new route is protected without code of its
/// own. Pages load scripts by GET, so bodies are not checked.
fn asks_for_script(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or("").as_bytes();
    form_urlencoded::parse(query).any(|(name, value)| name == "jsonp" && !value.is_empty())
}

/// Sets the tenant header to the tenant that the credential acts for.
fn choose_tenant(credential: &Credential, access: Access, headers: &mut HeaderMap) -> Result<(), Refusal> {
    let given =
        headers.get(TENANT_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if let Some(tenant) = credential.allow(access.scope(), given.as_deref())? {
        let value = HeaderValue::from_str(&tenant).map_err(|_| Refusal::Tenant(String::new()))?;
        // `insert` replaces all copies of the header.
        headers.insert(TENANT_HEADER, value);
    }
    Ok(())
}

/// Passes an admitted request to its route, or refuses it.
pub async fn admit(State(guarded): State<Guarded>, mut request: Request, next: Next) -> Response {
    let Guarded { gate, route } = guarded;
    let mut asked = asked_of(&request, route);
    let is_page = request.headers().contains_key(EXPLORER_HEADER);
    if let Err(refusal) = gate.check(route, &mut request, &mut asked).await {
        return gate.refuse(&asked, &refusal, is_page);
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
    if !(changes && matches!(route.scope, Access::Delete | Access::RulesWrite | Access::Admin)) {
        return next.run(request).await;
    }
    asked.tenant = tenant_of(&request);
    let pending = gate.audit.begin(asked);
    let response = next.run(request).await;
    pending.answered(response.status().as_u16());
    response
}

fn asked_of(request: &Request, route: &Route) -> Asked {
    Asked {
        who: "anonymous".to_owned(),
        tenant: tenant_of(request),
        peer: request.extensions().get::<SocketAddr>().copied(),
        route: format!("{} {}", request.method(), route.paths[0]),
        what: request.uri().path_and_query().map_or_else(String::new, ToString::to_string),
    }
}

fn tenant_of(request: &Request) -> String {
    let given = request.headers().get(TENANT_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()));
    given.unwrap_or_default().chars().filter(|c| !c.is_control()).take(150).collect()
}

fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Missing | Refusal::Malformed | Refusal::Unknown => StatusCode::UNAUTHORIZED,
        Refusal::Busy => StatusCode::TOO_MANY_REQUESTS,
        Refusal::NoTenant => StatusCode::BAD_REQUEST,
        Refusal::Scope(_)
        | Refusal::Tenant(_)
        | Refusal::ForeignHost(_)
        | Refusal::ForeignOrigin(_)
        | Refusal::ForeignScript(_) => StatusCode::FORBIDDEN,
    }
}

/// The challenges of a response that asks for a credential (RFC 9110, 6750, 7617).
fn challenges(refusal: &Refusal) -> &'static [&'static str] {
    const BASIC: &str = "Basic realm=\"sandur\", charset=\"UTF-8\"";
    match refusal {
        Refusal::Missing => &["Bearer realm=\"sandur\"", BASIC],
        Refusal::Malformed => &["Bearer realm=\"sandur\", error=\"invalid_request\"", BASIC],
        Refusal::Unknown => &["Bearer realm=\"sandur\", error=\"invalid_token\"", BASIC],
        _ => &[],
    }
}
