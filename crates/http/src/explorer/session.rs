//! `/explore/session`: signs a browser in and out.
//!
//! A person enters a token once; the answer stores it as a cookie that scripts cannot read. The server
//! keeps no state of sessions, so every process that has the credential in its file accepts the cookie,
//! and a token that is removed from the file ends its sessions. `auth::session` reads the cookie.

use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;

use crate::app::App;
use crate::auth::session_cookie;
use crate::failed_request::Failure;
use crate::gate::Standing;
use crate::marshal::json;
use crate::params::Params;
use crate::reply;
use crate::route::{Access, GET, Group, Handler, POST, Parameter, Route, Verb, parameter};

const PARAMETERS: &[Parameter] = &[
    parameter("path", "the path of the API in the browser, for which the cookie is valid; `/`"),
    parameter("secure", "`true`: the browser sends the cookie only over HTTPS"),
];

/// The row of signing in in the table of routes.
pub static SIGN_IN: Route = Route {
    methods: POST,
    paths: &["/explore/session"],
    scope: Access::Credential,
    does: "Stores the token of the header `Authorization: Bearer` as a cookie of the browser \
           ([security.md](../security.md#browsers)).",
    parameters: PARAMETERS,
    answers: "204 with `Set-Cookie`; without it if no credentials are configured.",
    fails: "400: the credential is not a token, or `path` is not a path.",
    handler: |request, app| sign_in.call(request, app),
    ..Route::of(Group::Operations)
};

/// The row of the state of the session in the table of routes.
pub static STATE: Route = Route {
    methods: GET,
    does: "Whether requests need a credential, and which one this request has.",
    parameters: &[],
    answers: "200, `{\"credential\":\"token NAME\"}`; `null` if no credentials are configured.",
    fails: "401: a credential is needed and the request has none.",
    handler: |request, app| state.call(request, app),
    ..SIGN_IN
};

/// The row of signing out in the table of routes.
pub static SIGN_OUT: Route = Route {
    methods: &[Verb::Delete],
    scope: Access::Open,
    does: "Removes the cookie of the session from the browser.",
    answers: "204 with `Set-Cookie`.",
    fails: "400: `path` is not a path.",
    handler: |request, app| sign_out.call(request, app),
    ..SIGN_IN
};

/// Maximum length of the path of a cookie.
const PATH_MAX: usize = 256;

async fn state(request: Request) -> Response {
    let mut body = b"{\"credential\":".to_vec();
    match request.extensions().get::<Standing>() {
        Some(standing) => json::utf8(&mut body, standing.name()),
        None => body.extend_from_slice(b"null"),
    }
    body.push(b'}');
    let mut response = reply::json(body);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn sign_in(State(app): State<App>, request: Request) -> Result<Response, Failure> {
    let needs_session = request.extensions().get::<Standing>().is_some();
    let headers = request.headers().clone();
    let params = Params::from_request(request, &app).await?;
    let scope = scope_of(&params)?;
    let mut response = reply::empty();
    if needs_session {
        let value = session_cookie::of(&headers).ok_or_else(|| {
            Failure::invalid("a session needs a token: send it as `Authorization: Bearer TOKEN`\n")
        })?;
        set(&mut response, &format!("{value}; {scope}"));
    }
    Ok(response)
}

async fn sign_out(params: Params) -> Result<Response, Failure> {
    let mut response = reply::empty();
    let empty = session_cookie::empty();
    set(&mut response, &format!("{empty}; Max-Age=0; {}", scope_of(&params)?));
    Ok(response)
}

fn set(response: &mut Response, cookie: &str) {
    let value = HeaderValue::from_str(cookie).expect("the parts of a cookie are checked to be ASCII");
    response.headers_mut().insert(header::SET_COOKIE, value);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// The attributes that determine to which requests the browser adds the cookie.
fn scope_of(params: &Params) -> Result<String, Failure> {
    let path = params.get("path").unwrap_or("/");
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/-_.~%".contains(&b);
    if !path.starts_with('/') || path.len() > PATH_MAX || !path.bytes().all(is_plain) {
        return Err(Failure::invalid(format!(
            "path must begin with / and have at most {PATH_MAX} letters, digits and characters of /-_.~%\n"
        )));
    }
    let secure = if params.get("secure") == Some("true") { "; Secure" } else { "" };
    Ok(format!("Path={path}; HttpOnly; SameSite=Strict{secure}"))
}
