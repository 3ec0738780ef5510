//! The cookie of a browser's session, which has the token of a credential.
//!
//! A browser adds cookies also to requests that pages of other origins make it send (`SameSite=Strict`
//! allows other ports and subdomains). So the cookie counts only in requests that such a page cannot make:
//! those with the header `X-Sandur-Explorer`, which needs a permission that this server never gives, and
//! websockets that name their page in `Origin`, which the gate has checked.

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const NAME: &str = "sandur_session";
/// Header of the requests of the explorer.
pub const EXPLORER_HEADER: &str = "x-sandur-explorer";
/// Maximum length of the value: a token of 512 bytes in base64.
const VALUE_MAX: usize = 684;

/// Whether the request comes from a page of this server, as far as a browser can be trusted.
fn is_of_own_page(headers: &HeaderMap) -> bool {
    let is_socket = headers.contains_key(header::UPGRADE) && headers.contains_key(header::ORIGIN);
    headers.contains_key(EXPLORER_HEADER) || is_socket
}

/// The token of the session of a request.
pub fn token(headers: &HeaderMap) -> Option<String> {
    if !is_of_own_page(headers) {
        return None;
    }
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, value)| *name == NAME && value.len() <= VALUE_MAX)?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(value).ok()?).ok().filter(|token| !token.is_empty())
}

/// The cookie for the token of a request, `name=value`; `None` if the credential is not a token.
pub fn of(headers: &HeaderMap) -> Option<String> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.trim().split_once(' ')?;
    let is_token = scheme.eq_ignore_ascii_case("bearer");
    is_token.then(|| format!("{NAME}={}", URL_SAFE_NO_PAD.encode(token.trim())))
}

/// The cookie without a token.
pub fn empty() -> String {
    format!("{NAME}=")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, String)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_cookie_counts_only_in_requests_of_own_pages() {
        let made = of(&headers(&[("authorization", "Bearer se=cr;et".to_owned())])).unwrap();
        assert!(!made.contains(';') && made.matches('=').count() == 1, "{made}");
        let cookie = ("cookie", format!("other=1; {made}"));
        let with = |more: &[(&'static str, &str)]| {
            let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
            token(&headers(&[cookie.clone()].into_iter().chain(more).collect::<Vec<_>>()))
        };
        assert_eq!(with(&[("x-sandur-explorer", "1")]).as_deref(), Some("se=cr;et"));
        assert_eq!(with(&[("upgrade", "websocket"), ("origin", "http://x")]).as_deref(), Some("se=cr;et"));
        for foreign in [&[][..], &[("origin", "http://x")], &[("upgrade", "websocket")]] {
            assert_eq!(with(foreign), None, "{foreign:?}");
        }
        let page = ("x-sandur-explorer", "1".to_owned());
        for damaged in ["sandur_session=", "sandur_session=%%", "sandur_session", "other=c2U", ""] {
            assert_eq!(token(&headers(&[page.clone(), ("cookie", damaged.to_owned())])), None, "{damaged}");
        }
        let long = format!("sandur_session={}", "A".repeat(VALUE_MAX + 1));
        assert_eq!(token(&headers(&[page, ("cookie", long)])), None);
        assert_eq!(of(&headers(&[("authorization", "Basic dTpw".to_owned())])), None);
    }
}
