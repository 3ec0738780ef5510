//! Names of hosts: `stripPort` and `stripDomain`.

use std::net::IpAddr;

/// Splits `host:port` and `[host]:port` as Go's `net.SplitHostPort`; `None` where that fails.
fn split(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        let port = after.strip_prefix(':')?;
        return (!port.contains([':', '[', ']']) && !host.contains('[')).then_some((host, port));
    }
    let (host, port) = text.rsplit_once(':')?;
    (!host.contains([':', '[', ']']) && !port.contains(['[', ']'])).then_some((host, port))
}

/// `host:port` without the port.
pub fn without_port(text: &str) -> String {
    split(text).map_or(text, |(host, _)| host).to_owned()
}

/// `host.example.org:port` as `host:port`; an address stays.
pub fn without_domain(text: &str) -> String {
    let (host, port) = split(text).unwrap_or((text, ""));
    if host.parse::<IpAddr>().is_ok() {
        return text.to_owned();
    }
    let name = host.split('.').next().unwrap_or_default();
    match port {
        "" => name.to_owned(),
        port => format!("{name}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_domains_are_removed() {
        for (text, port, domain) in [
            ("hostname", "hostname", "hostname"),
            ("127.0.0.1:8080", "127.0.0.1", "127.0.0.1:8080"),
            ("[2001:db8::1]:80", "2001:db8::1", "[2001:db8::1]:80"),
            ("2001:db8::1", "2001:db8::1", "2001:db8::1"),
            ("host.example.org:9100", "host.example.org", "host:9100"),
            ("host.example.org", "host.example.org", "host"),
            ("a:b:c", "a:b:c", "a:b:c"),
        ] {
            assert_eq!((&*without_port(text), &*without_domain(text)), (port, domain), "{text}");
        }
    }
}
