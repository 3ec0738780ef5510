//! Host and Origin checks against DNS rebinding and cross-site requests: a page of another site must not
//! make a browser query this server.
//!
//! *DNS rebinding*: the page's own name resolves to loopback, so that the browser takes the server for
//! the page's site. The request still has that name in `Host`. *Cross-site requests*: a page sends a
//! form, or opens a websocket, to an address that it knows. The browser names the page's site in
//! `Origin`. *Scripts*: a page reads an answer that is a script (JSONP) by `<script src>`, and the
//! browser names the page's site in `Sec-Fetch-Site` and `Referer`. Other programs send none of these
//! headers and are not affected.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

use crate::auth::Refusal;

/// The host names that requests may have.
#[derive(Clone, Debug)]
pub struct OwnNames {
    /// Whether `Host` must be a name of loopback or one of `others`.
    strict: bool,
    others: Vec<String>,
}

impl OwnNames {
    /// The names for a listener at `address`. A listener on loopback without credentials is meant for
    /// programs of this machine, which include browsers, so it answers only to names of loopback and to
    /// `others`.
    pub fn new(address: SocketAddr, has_credentials: bool, others: &[String]) -> Self {
        let others = others.iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect();
        Self { strict: !has_credentials && address.ip().is_loopback(), others }
    }

    /// Checks that the request is addressed to this server. A request without a host is not from a
    /// browser.
    pub fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        if !self.strict {
            return Ok(());
        }
        let foreign = hosts(uri, headers).find(|text| match text.parse::<Authority>() {
            Ok(host) => text.contains('@') || !(is_loopback(host.host()) || self.is_other(host.host())),
            Err(_) => true,
        });
        foreign.map_or(Ok(()), |host| Err(Refusal::ForeignHost(shown(&host))))
    }

    /// Checks that the requesting page, if there is one, is of this server or of `others`.
    pub fn check_origin(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let foreign = origins.find(|origin| !origin.to_str().is_ok_and(|o| self.is_own(o, uri, headers)));
        match foreign {
            None => Ok(()),
            Some(origin) => Err(Refusal::ForeignOrigin(shown(&String::from_utf8_lossy(origin.as_bytes())))),
        }
    }

    /// Checks whether the client may get an answer that is a script: our own pages, those of `others`,
    /// and clients that are not browsers. Each header that is present has to allow it.
    ///
    /// Over plain HTTP a browser sends `Sec-Fetch-Site` only to loopback, and a page can suppress
    /// `Referer`. Browsers that send neither are recognized by their `User-Agent`.
    pub fn check_script(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let refused = |who: String| Err(Refusal::ForeignScript(who));
        let pages = [header::ORIGIN, header::REFERER];
        let pages: Vec<_> = pages.iter().flat_map(|name| headers.get_all(name)).collect();
        let foreign = pages.iter().find(|page| !page.to_str().is_ok_and(|p| self.is_own(p, uri, headers)));
        if let Some(page) = foreign {
            return refused(format!("a page of '{}'", shown(&String::from_utf8_lossy(page.as_bytes()))));
        }
        let site = headers.get("sec-fetch-site").map(|site| site.to_str().unwrap_or(""));
        let is_browser = || {
            let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("");
            agent.starts_with("Mozilla/") || agent.starts_with("Opera/")
        };
        match site {
            Some("same-origin" | "none") => Ok(()),
            // A page of a host in `others` is of another site and still allowed.
            _ if !pages.is_empty() => Ok(()),
            Some(_) => refused("a page of another site".to_owned()),
            None if is_browser() => refused("a page that the browser does not name".to_owned()),
            None => Ok(()),
        }
    }

    fn is_own(&self, origin: &str, uri: &Uri, headers: &HeaderMap) -> bool {
        let Ok(origin) = origin.parse::<Uri>() else { return false };
        let (Some(scheme), Some(page)) = (origin.scheme_str(), origin.authority()) else { return false };
        let port = |of: &Authority| of.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        let same = |text: &str| {
            let host = text.parse::<Authority>();
            host.is_ok_and(|host| host.host().eq_ignore_ascii_case(page.host()) && port(&host) == port(page))
        };
        self.is_other(page.host()) || hosts(uri, headers).any(|host| same(&host))
    }

    fn is_other(&self, host: &str) -> bool {
        self.others.iter().any(|name| name.eq_ignore_ascii_case(host.trim_end_matches('.')))
    }
}

/// The hosts that the request is addressed to: `:authority` of HTTP/2, and `Host`.
fn hosts(uri: &Uri, headers: &HeaderMap) -> impl Iterator<Item = String> {
    let authority = uri.authority().map(|authority| authority.as_str().to_owned());
    let given = headers.get_all(header::HOST).iter();
    let given = given.map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    authority.into_iter().chain(given.collect::<Vec<_>>())
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if host == "localhost" || host.ends_with(".localhost") {
        return true;
    }
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The part of a name that is put into answers and the log.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn names(address: &str, has_credentials: bool) -> OwnNames {
        OwnNames::new(address.parse().unwrap(), has_credentials, &["Logs.Example.org".to_owned()])
    }

    #[test]
    fn a_rebound_name_is_refused_on_loopback_without_credentials() {
        let local = names("127.0.0.1:3100", false);
        let check =
            |names: &OwnNames, host| names.check_host(&Uri::from_static("/x"), &headers(&[("host", host)]));
        for ours in [
            "localhost",
            "LOCALHOST:3100",
            "localhost.",
            "a.localhost:1",
            "127.0.0.1:3100",
            "127.9.9.9",
            "[::1]:3100",
            "[::ffff:127.0.0.1]",
            "logs.example.org",
            "LOGS.example.org.:443",
        ] {
            assert_eq!(check(&local, ours), Ok(()), "{ours}");
        }
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "evillocalhost",
            "127.0.0.1.evil.example",
            "10.0.0.1:3100",
            "",
            "localhost@evil.example",
            "evil.example@localhost",
            "0.0.0.0:3100",
            "[::]",
        ] {
            assert!(check(&local, foreign).is_err(), "{foreign}");
            assert_eq!(check(&names("127.0.0.1:3100", true), foreign), Ok(()), "credentials protect");
            assert_eq!(check(&names("10.0.0.1:3100", false), foreign), Ok(()), "not on loopback");
        }
        assert_eq!(local.check_host(&Uri::from_static("/x"), &HeaderMap::new()), Ok(()));
        let two = headers(&[("host", "localhost"), ("host", "evil.example")]);
        assert!(local.check_host(&Uri::from_static("/x"), &two).is_err());
        assert!(local.check_host(&Uri::from_static("http://evil.example/x"), &HeaderMap::new()).is_err());
    }

    #[test]
    fn scripts_are_answered_to_own_pages_and_to_programs_only() {
        let check = |pairs: &[(&'static str, &'static str)]| {
            let headers = headers(&[&[("host", "localhost:3100")], pairs].concat());
            names("127.0.0.1:3100", false).check_script(&Uri::from_static("/render?jsonp=f"), &headers)
        };
        let (site, agent) = ("sec-fetch-site", ("user-agent", "Mozilla/5.0 (X11)"));
        for ours in [
            &[][..],
            &[("user-agent", "curl/8.5.0")],
            &[(site, "same-origin"), agent],
            &[(site, "none"), agent],
            &[("referer", "http://localhost:3100/a?b"), agent],
            &[("origin", "http://localhost:3100"), (site, "same-origin"), agent],
            &[("referer", "https://logs.example.org/dashboard"), (site, "cross-site"), agent],
        ] {
            assert_eq!(check(ours), Ok(()), "{ours:?}");
        }
        for foreign in [
            &[(site, "cross-site")][..],
            &[(site, "same-site")],
            &[(site, "new-word")],
            &[(site, "cross-site"), ("origin", "http://evil.example")],
            &[("origin", "null")],
            &[("referer", "http://evil.example/page")],
            &[("referer", "http://localhost:8080/")],
            &[("referer", "http://localhost:3100/"), ("origin", "http://evil.example")],
            &[("referer", "http://localhost:3100/"), ("referer", "http://evil.example/")],
            &[(site, "none"), ("referer", "http://evil.example/")],
            &[agent],
        ] {
            let refused = check(foreign).unwrap_err();
            assert!(refused.to_string().contains("http.allowed_hosts"), "{foreign:?}: {refused}");
        }
    }

    #[test]
    fn a_foreign_page_is_refused_and_our_own_is_not() {
        let check = |host, origin| {
            let headers = headers(&[("host", host), ("origin", origin)]);
            names("127.0.0.1:3100", true).check_origin(&Uri::from_static("/flush"), &headers).is_ok()
        };
        assert!(check("localhost:3100", "http://localhost:3100"));
        assert!(check("logs:443", "https://logs") && check("logs", "http://LOGS:80"));
        assert!(check("10.0.0.1", "https://logs.example.org"), "the configured name of a proxy");
        for foreign in
            ["null", "", "http://evil.example", "http://localhost", "http://localhost:3100.evil.example"]
        {
            assert!(!check("localhost:3100", foreign), "{foreign}");
        }
        assert_eq!(
            names("127.0.0.1:1", true).check_origin(&Uri::from_static("/"), &HeaderMap::new()),
            Ok(())
        );
    }
}
