//! Parses carbon's destinations: `HOST:PORT` or `HOST:PORT:INSTANCE`. An IPv6 address is in brackets.

use crate::node::Node;

/// The largest length of a host name in bytes.
pub(super) const HOST_BYTES_MAX: usize = 253;

/// Parses one of carbon's destinations.
pub(super) fn carbon(text: &str) -> Result<Node, String> {
    let text = text.trim();
    let wrong = || format!("'{text}' is not HOST:PORT or HOST:PORT:INSTANCE");
    let (host, rest) = host_and_rest(text).ok_or_else(wrong)?;
    let (port, instance) = match rest.split_once(':') {
        Some((port, instance)) => (port, Some(instance.to_owned())),
        None => (rest, None),
    };
    let port = port.trim().parse().map_err(|_| wrong())?;
    check_host(host)?;
    Ok(Node { host: host.to_owned(), port, instance, zone: None })
}

/// Splits at the colon after the host.
fn host_and_rest(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(inner) => inner.split_once("]:"),
        None => text.split_once(':'),
    }
}

/// Rejects texts that cannot be the name of a host. A single number is an IPv4 address only in an old
/// notation, and more likely the argument of an option that was misspelled.
pub(super) fn check_host(host: &str) -> Result<(), String> {
    let is_allowed = |letter: char| letter.is_alphanumeric() || "-_.:%".contains(letter);
    let is_name = !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.chars().all(is_allowed);
    if is_name && host.contains(|letter: char| !letter.is_ascii_digit()) {
        return Ok(());
    }
    Err(format!("'{host}' is not the name or address of a host"))
}

/// Parses our own and carbon-c-relay's form: `HOST[:PORT][=INSTANCE]`. The default port is 2003.
pub(super) fn relay(text: &str) -> Result<Node, String> {
    let (address, instance) = match text.split_once('=') {
        Some((address, instance)) => (address, Some(instance.to_owned())),
        None => (text, None),
    };
    let (host, port) = match address.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']').ok_or(format!("'{address}' has no ']'"))?;
            (host, rest.strip_prefix(':'))
        }
        None => match address.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().map_err(|_| format!("'{port}' is not a port"))?,
        None => 2003,
    };
    check_host(host)?;
    Ok(Node { host: host.to_owned(), port, instance, zone: None })
}
