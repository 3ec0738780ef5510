//! Names of this server, against pages of others: a browser that can reach the server must not be made to
//! ask it by another process's page.
//!
//! *DNS rebinding*: a page's own name is made to point to loopback, so that the browser takes the server for
//! that page's. The request still carries that name in `Host`. *Forged requests*: a page sends a form, or
//! opens a websocket, to an address that it knows. The browser says whose page it is in `Origin`.
//! Programs send no `Origin` and are not affected.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};

use crate::auth::Refusal;

/// Which names requests may carry.
#[derive(Clone, Debug)]
pub struct OwnNames {
    /// Whether `Host` must be a name of loopback or one of `others`.
    strict: bool,
    others: Vec<String>,
}

impl OwnNames {
    /// For a listener at `address`. Without credentials one on loopback is reached by what runs on this
    /// machine only, browsers included, so that it answers to names of loopback and to `others` only.
    pub fn new(address: SocketAddr, has_credentials: bool, others: &[String]) -> Self {
        let others = others.iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect();
        Self { strict: !has_credentials && address.ip().is_loopback(), others }
    }

    /// Whether the request is for us. One that names no host comes from no browser.
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

    /// Whether the page that asks is ours, or has no origin.
    pub fn check_origin(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let foreign = origins.find(|origin| !origin.to_str().is_ok_and(|o| self.is_own(o, uri, headers)));
        match foreign {
            None => Ok(()),
            Some(origin) => Err(Refusal::ForeignOrigin(shown(&String::from_utf8_lossy(origin.as_bytes())))),
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

/// Whom the request is for: `:authority` of HTTP/2, or `Host`.
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

/// What of a name stands in an answer and in the log.
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
            assert_eq!(check(&names("127.0.0.1:3100", true), foreign), Ok(()), "a page has no credential");
            assert_eq!(check(&names("10.0.0.1:3100", false), foreign), Ok(()), "who listens there said so");
        }
        assert_eq!(local.check_host(&Uri::from_static("/x"), &HeaderMap::new()), Ok(()));
        let two = headers(&[("host", "localhost"), ("host", "evil.example")]);
        assert!(local.check_host(&Uri::from_static("/x"), &two).is_err());
        assert!(local.check_host(&Uri::from_static("http://evil.example/x"), &HeaderMap::new()).is_err());
    }

    #[test]
    fn a_foreign_page_is_refused_and_our_own_is_not() {
        let check = |host, origin| {
            let headers = headers(&[("host", host), ("origin", origin)]);
            names("127.0.0.1:3100", true).check_origin(&Uri::from_static("/flush"), &headers).is_ok()
        };
        assert!(check("localhost:3100", "http://localhost:3100"));
        assert!(check("logs:443", "https://logs") && check("logs", "http://LOGS:80"));
        assert!(check("10.0.0.1", "https://logs.example.org"), "a proxy's name that was configured");
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
