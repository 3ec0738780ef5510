//! The argument of `-l`: a list of addresses with options.
//!
//! `[notls:|btls:|mtls:][proto[NAME]:][tag[NAME]:]HOST[:PORT]`, separated by commas; IPv6 addresses are
//! in brackets. `tag_NAME_:` is the older form of a tag. Tags have no effect here.

use super::draft::{Draft, WrongArguments};
use crate::settings::{Binding, ListenAddress, TlsUse};

/// Adds the addresses to those of earlier `-l` options.
pub(super) fn apply(draft: &mut Draft, text: &str) -> Result<(), WrongArguments> {
    for part in text.split([',', ';']).filter(|part| !part.is_empty()) {
        draft.settings.listen.push(address(part)?);
    }
    let all = match draft.settings.listen_text.take() {
        Some(before) => format!("{before},{text}"),
        None => text.to_owned(),
    };
    draft.settings.listen_text = Some(all);
    Ok(())
}

fn address(part: &str) -> Result<ListenAddress, WrongArguments> {
    let mut rest = part;
    let mut tls = None;
    for (prefix, how) in [("notls:", TlsUse::Off), ("btls:", TlsUse::Server), ("mtls:", TlsUse::Mutual)] {
        if let Some(after) = rest.strip_prefix(prefix) {
            (rest, tls) = (after, Some(how));
        }
    }
    let mut protocol = None;
    if let Some(after) = rest.strip_prefix("proto[") {
        let Some((name, after)) = after.split_once("]:") else {
            return Err(WrongArguments::new(format!("ERROR: protocol format is: proto[name]: {part}")));
        };
        let Some(found) = Binding::named(name) else {
            return Err(WrongArguments::new(format!("ERROR: unknown protocol: {name}")));
        };
        (rest, protocol) = (after, Some(found));
    }
    if let Some(after) = rest.strip_prefix("tag[") {
        rest = after.split_once("]:").map_or(after, |(_, after)| after);
    } else if let Some(after) = rest.strip_prefix("tag_") {
        rest = after.split_once("_:").map_or(after, |(_, after)| after);
    }
    let (host, port) = host_and_port(rest)
        .ok_or_else(|| WrongArguments::new(format!("Invalid port number or address: \"{part}\"")))?;
    Ok(ListenAddress { host: host.to_owned(), port, protocol, tls })
}

fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(after) = text.strip_prefix('[') {
        let (host, rest) = after.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match text.split_once(':') {
        // a text with several colons and no brackets is an IPv6 address
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_address_is_parsed() {
        let of = |text: &str| address(text).map(|a| (a.host, a.port, a.protocol, a.tls)).ok();
        assert_eq!(of("127.0.0.1"), Some(("127.0.0.1".into(), None, None, None)));
        assert_eq!(of("h:5"), Some(("h".into(), Some(5), None, None)));
        assert_eq!(of("[::1]:5"), Some(("::1".into(), Some(5), None, None)));
        assert_eq!(of("::1"), Some(("::1".into(), None, None, None)));
        let full = of("mtls:proto[ascii]:tag[a]:127.0.0.1:7");
        assert_eq!(full, Some(("127.0.0.1".into(), Some(7), Some(Binding::Ascii), Some(TlsUse::Mutual))));
        assert_eq!(of("notls:tag_x_:h:7"), Some(("h".into(), Some(7), None, Some(TlsUse::Off))));
        for bad in ["h:x", "proto[http]:h", "proto[ascii", "[::1", "h:70000"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
