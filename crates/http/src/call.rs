//! One call of the API as handlers see it: tenant, parameters and headers.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use sandur_base::ErrorKind;
use sandur_base::units::parse_duration;
use sandur_model::{TenantError, TenantId, TimeRange};
use sandur_query::QueryContext;
use sandur_runtime::FairReservation;
use sandur_service::query_log::{Times, tag_pairs};
use sandur_service::writes::{Received, parties};
use sandur_service::{AnsweredBy, Caller, Queries};

use super::app::App;
use super::body::BodyLimits;
use super::gate::TENANT_HEADER;
use super::marshal::Encoding;
use super::params::Params;
use super::route::OfSeveral;
use super::socket_headers::ENCODING_HEADER;
use crate::failed_request::Failure;

/// A call with parameters in its URL, its form body, or both.
pub struct Call {
    /// The client and the tenant of the request; several tenants only for queries.
    pub caller: Caller,
    /// Parameters of the URL and the form.
    pub params: Params,
    /// Headers.
    pub headers: HeaderMap,
    /// Address of the client.
    pub peer: Option<SocketAddr>,
    /// The memory of the parameters of a form.
    _memory: Option<FairReservation>,
}

/// Maximum size of a form: a query has at most 128 KiB, and escaping at most triples it.
const FORM_MAX: u64 = 1 << 20;

/// Header with `key=value` pairs by which clients describe their queries.
const TAGS_HEADER: &str = "x-query-tags";

/// Header with the most age of the view that the client accepts.
const FRESHNESS_HEADER: &str = "x-sandur-min-freshness";

/// The tenant that the headers name, or the default tenant.
pub fn tenant(app: &App, headers: &HeaderMap) -> Result<TenantId, Failure> {
    let given = headers.get(TENANT_HEADER).map(|v| v.to_str().unwrap_or("\u{fffd}"));
    let result = match given {
        None if app.settings.auth.require_tenant => Err(TenantError::Missing),
        None => return Ok(TenantId::default_tenant()),
        Some(id) => TenantId::new(id.trim()),
    };
    result.map_err(|error| match error {
        TenantError::Missing => Failure::new(ErrorKind::Denied, "no org id"),
        other => Failure::invalid(other.to_string()),
    })
}

/// Whether a change of stored rules goes on from those before the last change, if the last ones are damaged:
/// the parameter `base=previous`.
pub fn is_from_previous(query: Option<&str>) -> bool {
    Params::read(b"", query.unwrap_or("").as_bytes()).get("base") == Some("previous")
}

impl Call {
    /// A call whose parameters are not in a form.
    pub fn without_parameters(tenant: TenantId, parts: &Parts) -> Result<Self, Failure> {
        let (caller, headers) = (caller(tenant, parts)?, parts.headers.clone());
        let peer = parts.extensions.get().copied();
        Ok(Self { caller, params: Params::default(), headers, peer, _memory: None })
    }
}

/// The tenants of a request that names several (`a|b`); `None` if it names one or if `query.multi_tenant`
/// is off. Fails when the route does not allow several.
fn several_tenants(app: &App, parts: &Parts) -> Result<Option<TenantId>, Failure> {
    let given = parts.headers.get(TENANT_HEADER).and_then(|v| v.to_str().ok()).unwrap_or("");
    if !app.settings.query.multi_tenant || !given.contains('|') {
        return Ok(None);
    }
    let ids = given.split('|').map(|id| TenantId::new(id.trim())).collect::<Result<Vec<_>, _>>();
    let several = ids.and_then(TenantId::several).map_err(|error| Failure::invalid(error.to_string()))?;
    if several.is_several() && parts.extensions.get::<OfSeveral>().is_none() {
        return Err(Failure::invalid("multiple org IDs present"));
    }
    Ok(Some(several))
}

/// Reads the body of a request for data: a form, or a body that may be as large as a form.
pub async fn body_of(app: &App, parts: &Parts, body: Body) -> Result<Received, Failure> {
    let limits = BodyLimits {
        env: &app.env,
        size_max: FORM_MAX,
        size_limit: "size of a form",
        idle: app.settings.http.body_idle_timeout,
        rate_min: app.settings.http.min_client_rate,
        memory: app.writes.memory(),
        parties: parties(text_of(&parts.headers, TENANT_HEADER), parts.extensions.get().copied()),
    };
    limits.read(&parts.headers, body).await
}

/// Reads the parameters of the URL and, as Go does, of the form in the body of a POST or PUT. With a form
/// it also returns the memory of the parameters, which is reserved before they are parsed.
async fn read_params(
    app: &App,
    parts: &Parts,
    body: Body,
) -> Result<(Params, Option<FairReservation>), Failure> {
    let query = parts.uri.query().unwrap_or("").as_bytes();
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let may_carry = matches!(parts.method, Method::POST | Method::PUT);
    if !may_carry || !kind.starts_with("application/x-www-form-urlencoded") {
        return Ok((Params::read(b"", query), None));
    }
    let Received { bytes, mut memory } = body_of(app, parts, body).await?;
    let weight = Params::weight(&bytes, query);
    memory.grow(weight).await.map_err(|short| sandur_service::Failure::from(&short))?;
    let params = Params::read(&bytes, query);
    drop(bytes);
    memory.shrink(memory.bytes().saturating_sub(weight));
    Ok((params, Some(memory)))
}

/// For routes that belong to no tenant: the tenant header is ignored.
impl FromRequest<App> for Params {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        // Handlers that need only parameters drop them immediately, so they keep no reservation.
        Ok(read_params(app, &parts, body).await?.0)
    }
}

impl FromRequest<App> for Call {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let tenant = match several_tenants(app, &parts)? {
            Some(several) => several,
            None => tenant(app, &parts.headers)?,
        };
        let (params, memory) = read_params(app, &parts, body).await?;
        let (caller, peer) = (caller(tenant, &parts)?, parts.extensions.get().copied());
        Ok(Self { caller, params, headers: parts.headers, peer, _memory: memory })
    }
}

/// Returns the client of a request.
fn caller(tenant: TenantId, parts: &Parts) -> Result<Caller, Failure> {
    let text = |name| text_of(&parts.headers, name);
    let w3c = text("traceparent").split('-').nth(1);
    let jaeger = || text("uber-trace-id").split(':').next();
    let is_id = |id: &&str| !id.is_empty() && id.len() <= 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    Ok(Caller {
        tenant,
        tags: tag_pairs(text(TAGS_HEADER)),
        user_agent: text("user-agent").to_owned(),
        // The headers of W3C or Jaeger.
        trace: w3c.filter(is_id).or_else(|| jaeger().filter(is_id)).map(str::to_owned),
        view_age_max: view_age_max(&parts.headers)?,
        answered_by: parts.extensions.get::<AnsweredBy>().cloned().unwrap_or_default(),
    })
}

/// The most age of the view that the client accepts, if it says so.
fn view_age_max(headers: &HeaderMap) -> Result<Option<Duration>, Failure> {
    let Some(given) = headers.get(FRESHNESS_HEADER) else { return Ok(None) };
    let parsed = given.to_str().map_err(|error| error.to_string());
    let parsed = parsed.and_then(|text| parse_duration(text.trim()).map_err(|error| error.to_string()));
    let failure = |error: String| {
        let text =
            format!("the header X-Sandur-Min-Freshness is not a duration such as 500ms or 2s: {error}\n");
        Failure::invalid(text)
    };
    parsed.map(Some).map_err(failure)
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("")
}

/// An empty range: no row can have so late a timestamp.
const NOTHING: TimeRange = TimeRange { start: i64::MAX, end: i64::MAX };

impl Call {
    /// The time range of the request as given, and the part of it that the tenant may query. Fails when
    /// that part is longer than `max_query_length`.
    pub fn range(&self, queries: &Queries, context: &QueryContext) -> Result<(Times, TimeRange), Failure> {
        self.visible(queries, context, self.params.bounds(queries.env().now_ns())?)
    }

    /// Like [`Call::range`]; also fails when the end is before the start.
    pub fn ordered_range(
        &self,
        queries: &Queries,
        context: &QueryContext,
    ) -> Result<(Times, TimeRange), Failure> {
        self.visible(queries, context, self.params.ordered_bounds(queries.env().now_ns())?)
    }

    fn visible(
        &self,
        queries: &Queries,
        context: &QueryContext,
        (start_ns, end_ns): (i64, i64),
    ) -> Result<(Times, TimeRange), Failure> {
        let first = start_ns.max(context.earliest_ns());
        sandur_logql::check_length(first, end_ns, &queries.limits(&self.caller.tenant))?;
        let range = if end_ns < first { NOTHING } else { TimeRange::inclusive(first, end_ns) };
        Ok((Times { start_ns, end_ns }, range))
    }

    /// Whether labels are returned by category. Like Loki it splits on commas and does not trim.
    pub fn encoding(&self) -> Encoding {
        let flags = self.headers.get(ENCODING_HEADER).and_then(|v| v.to_str().ok()).unwrap_or("");
        match flags.split(',').any(|flag| flag == "categorize-labels") {
            true => Encoding::Categorized,
            false => Encoding::Merged,
        }
    }

    /// The text of a header; empty when it is absent or not text.
    pub fn header(&self, name: &str) -> &str {
        text_of(&self.headers, name)
    }

    /// Whether to compress the answer: the client accepts gzip, and it is not on this machine.
    pub fn wants_gzip(&self) -> bool {
        let accepted = self.headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or("");
        let local = self.peer.is_some_and(|p| p.ip().is_loopback());
        !local && accepted.split(',').any(|e| e.trim().split(';').next() == Some("gzip"))
    }
}
