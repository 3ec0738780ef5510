//! Headers of websockets that are parameters of the URL, because pages cannot set headers of websockets.
//!
//! The gate reads them before it checks the tenant, so a tenant that is named here is checked as any other.

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use url::form_urlencoded;

/// Header that requests labels by category.
pub const ENCODING_HEADER: &str = "x-loki-response-encoding-flags";

/// Sets each of these headers from the parameter of the same name, if the request is for a websocket. A
/// header that is present takes precedence.
pub fn read(request: &mut Request, names: &[&'static str]) {
    if !request.headers().contains_key(header::UPGRADE) {
        return;
    }
    let query = request.uri().query().unwrap_or("").to_owned();
    for name in names {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let given = pairs.find(|(given, _)| given.eq_ignore_ascii_case(name));
        if let Some(value) = given.and_then(|(_, value)| HeaderValue::from_str(&value).ok()) {
            request.headers_mut().entry(*name).or_insert(value);
        }
    }
}
