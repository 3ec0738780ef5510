//! `/explore/…`: the files of the explorer.
//!
//! They contain nothing about the data, the store or the machine, so they need no credential: the page
//! itself asks for a token. All URLs in them are relative, so a proxy may serve them below any prefix.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sandur_base::ErrorKind;

use super::file::File;
use super::files::FILES;
use crate::app::App;
use crate::failed_request::Failure;
use crate::route::{Access, GET, Group, Handler, Route, parameter};

/// The row of the files in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/explore/{*file}", "/explore/", "/explore"],
    scope: Access::Open,
    does: "The explorer: a page for browsers ([explorer.md](../explorer.md)). `/explore/logs`, `metrics`, \
           `graphite`, `alerts`, `dashboards` and `machine` are its routes; other paths are its files.",
    parameters: &[parameter("{file}", "part of the path: a route of the page, or a file")],
    answers: "200 with `ETag`, compressed if the client accepts gzip; 304; 302 to `/explore/logs`.",
    fails: "404: no such file.",
    handler: |request, app| page.call(request, app),
    ..Route::of(Group::Operations)
};

/// Routes of the page; each of them is the same document.
const DOCUMENT_ROUTES: &[&str] = &["logs", "metrics", "graphite", "alerts", "dashboards", "machine"];
const DOCUMENT: &str = "index.html";

/// Only files of this server run, and the page talks only to this server. Trusted types without a policy
/// refuse every text that a script would insert as HTML.
const CONTENT_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types 'none'",
);

async fn page(State(app): State<App>, request: Request) -> Response {
    let path = request.uri().path();
    let Some(name) = path.strip_prefix("/explore/") else {
        return moved("explore/logs");
    };
    if name.is_empty() {
        return moved("logs");
    }
    let wanted = if DOCUMENT_ROUTES.contains(&name) { DOCUMENT } else { name };
    match FILES.binary_search_by(|file| file.path.cmp(wanted)) {
        Ok(index) => answer(&app, &FILES[index], request.headers()).await,
        Err(_) => Failure::new(ErrorKind::NotFound, "404 page not found\n").into_response(),
    }
}

/// A redirect to a URL that is relative to that of the request, so that it is right below any prefix.
pub fn moved(relative: &'static str) -> Response {
    let mut response = StatusCode::FOUND.into_response();
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(relative));
    response
}

async fn answer(app: &App, file: &'static File, headers: &HeaderMap) -> Response {
    let mut response = if is_known(file, headers) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if accepts_gzip(headers) {
        let packed = match file.known_packed() {
            Some(packed) => packed,
            None => app.env.run_blocking(|| file.packed()).await,
        };
        let mut response = Response::new(Body::from(packed));
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        Response::new(Body::from(file.content()))
    };
    describe(file, response.headers_mut());
    response
}

fn describe(file: &File, headers: &mut HeaderMap) {
    let cached = if file.is_immutable() { "public, max-age=31536000, immutable" } else { "no-cache" };
    for (name, value) in [
        (header::CONTENT_TYPE, file.kind),
        (header::ETAG, file.tag),
        (header::CACHE_CONTROL, cached),
        (header::VARY, "Accept-Encoding"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY);
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        headers.insert(name, HeaderValue::from_static("same-origin"));
    }
}

/// Whether the client has this content. The tags are weak, since both encodings have the same.
fn is_known(file: &File, headers: &HeaderMap) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = given.flat_map(|value| value.split(','));
    tags.any(|tag| matches(tag.trim(), file.tag))
}

/// Compares a tag of a request, which may be any, with the weak tag of a file.
fn matches(given: &str, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim_start_matches("W/").to_owned();
    given == "*" || opaque(given) == opaque(tag)
}

/// Whether the client accepts gzip; `gzip;q=0` refuses it.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let given = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|encoding| {
        let mut parts = encoding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
        let weight =
            parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.trim().parse::<f32>().ok());
        is_gzip && weight.is_none_or(|weight| weight > 0.0)
    })
}

/// The whole document, for tests and measurements.
#[cfg(test)]
fn document() -> bytes::Bytes {
    FILES.iter().find(|file| file.path == DOCUMENT).expect("the document is a file").content()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sorted_and_the_document_names_only_files() {
        assert!(FILES.is_sorted_by(|a, b| a.path < b.path), "the table is searched by halves");
        let text = String::from_utf8(document().to_vec()).unwrap();
        let named = text.split(['"']).filter(|part| part.starts_with("assets/") || part.ends_with(".svg"));
        let named: Vec<_> = named.collect();
        assert!(named.len() >= 4, "{named:?}");
        for name in named {
            assert!(FILES.iter().any(|file| file.path == name), "{name}");
        }
        assert!(!text.contains("<style") && !text.contains("style=") && !text.contains("onclick"));
        assert!(!text.contains("src=\"/") && !text.contains("href=\"/"), "URLs are relative");
    }

    #[test]
    fn gzip_is_accepted_as_the_header_says() {
        let accepts = |value: &'static str| {
            accepts_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]))
        };
        assert!(accepts("gzip") && accepts("br, GZIP;q=0.5") && accepts("*"));
        assert!(!accepts("identity") && !accepts("gzip;q=0") && !accepts("br") && !accepts(""));
    }

    #[test]
    fn a_packed_file_is_the_file() {
        use std::io::Read;
        for file in &FILES {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&*file.packed()).read_to_end(&mut plain).unwrap();
            assert_eq!(plain, file.content(), "{}", file.path);
        }
    }
}
