//! Parses carbon-relay-ng's destinations: an address and options in one text.

use crate::model::{Protocol, Target};
use crate::node::Node;

use super::destination::check_host;

/// A parsed destination.
pub(super) struct Destination {
    pub(super) target: Target,
    /// Options that have no effect here.
    pub(super) ignored: Vec<String>,
}

/// Parses one destination. `matches` says whether the type of route allows conditions on names.
pub(super) fn read(text: &str, matches: bool) -> Result<Destination, String> {
    let mut words = text.split_whitespace();
    let mut target = Target::new(node(words.next().ok_or("a destination has no address")?)?);
    target.spools = false;
    let mut ignored = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').ok_or(format!("'{word}' is not option=value"))?;
        let truth = || match value {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("'{word}' must be true or false")),
        };
        let matcher = std::mem::take(&mut target.matcher);
        let is_matcher = ["prefix", "notPrefix", "sub", "notSub", "regex", "notRegex"].contains(&key);
        if is_matcher && !matches {
            return Err(format!("'{key}' is not allowed for this type of route"));
        }
        target.matcher = match key {
            "prefix" | "notPrefix" => matcher.prefix(value, key == "notPrefix"),
            "sub" | "notSub" => matcher.part(value, key == "notSub"),
            "regex" | "notRegex" => {
                matcher.expression(value, key == "notRegex").map_err(|error| error.to_string())?
            }
            _ => matcher,
        };
        match key {
            "pickle" => target.protocol = if truth()? { Protocol::Pickle } else { Protocol::Line },
            "spool" => target.spools = truth()?,
            _ if is_matcher => {}
            "flush"
            | "reconn"
            | "connbuf"
            | "iobuf"
            | "spoolbuf"
            | "spoolmaxbytesperfile"
            | "spoolsyncevery"
            | "spoolsyncperiod"
            | "spoolsleep"
            | "unspoolsleep" => {
                ignored.push(word.to_owned());
            }
            _ => return Err(format!("there is no option '{key}'")),
        }
    }
    Ok(Destination { target, ignored })
}

/// Parses `HOST:PORT` or `HOST:PORT:INSTANCE`.
fn node(text: &str) -> Result<Node, String> {
    let wrong = || format!("'{text}' is not HOST:PORT or HOST:PORT:INSTANCE");
    let mut parts = text.splitn(3, ':');
    let (host, port) = (parts.next().unwrap_or_default(), parts.next().ok_or_else(wrong)?);
    check_host(host)?;
    let instance = parts.next().filter(|own| !own.is_empty()).map(str::to_owned);
    Ok(Node { host: host.to_owned(), port: port.parse().map_err(|_| wrong())?, instance, zone: None })
}
