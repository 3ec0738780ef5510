//! Reads `carbon.conf`: its `[relay]` or `[aggregator]` section and the rule files in the same
//! directory.
//!
//! As in carbon, a relay uses aggregation rules only to compute the key of
//! `aggregated-consistent-hashing`, and rewrites nothing. An aggregator aggregates, rewrites and hashes
//! consistently.

use std::time::Duration;

use super::carbon_rules::{aggregates, expressions, relay_rules, rewrites};
use super::destination;
use super::ini::{self, Section};
use super::source::{ConfigError, Source};
use crate::model::aggregate::Output;
use crate::model::matcher::Matcher;
use crate::model::rewrite::{Pattern, Rewrite};
use crate::model::{
    Encryption, Listener, Method, Protocol, Route, Routing, Stage, Statistics, Target, Transport,
};
use crate::node::Node;
use crate::replicas::Rule;
use crate::ring::Kind;

/// Settings that have an effect; others are ignored with a note.
const SUPPORTED_OPTIONS: &[&str] = &[
    "LINE_RECEIVER_INTERFACE",
    "LINE_RECEIVER_PORT",
    "ENABLE_UDP_LISTENER",
    "UDP_RECEIVER_INTERFACE",
    "UDP_RECEIVER_PORT",
    "PICKLE_RECEIVER_INTERFACE",
    "PICKLE_RECEIVER_PORT",
    "RELAY_METHOD",
    "ROUTER_HASH_TYPE",
    "REPLICATION_FACTOR",
    "DIVERSE_REPLICAS",
    "DYNAMIC_ROUTER",
    "DESTINATIONS",
    "DESTINATION_PROTOCOL",
    "DESTINATION_TRANSPORT",
    "DESTINATION_SSL_CA",
    "DESTINATION_POOL_REPLICAS",
    "TAG_RELAY_NORMALIZED",
    "USE_WHITELIST",
    "CARBON_METRIC_PREFIX",
    "CARBON_METRIC_INTERVAL",
    "WRITE_BACK_FREQUENCY",
    "MAX_AGGREGATION_INTERVALS",
    "FORWARD_ALL",
    "RELAY_RULES",
    "AGGREGATION_RULES",
    "REWRITE_RULES",
];

/// The reason that a note gives for an ignored setting.
const OTHERWISE: &str = "the relay bounds queues, messages and connections by itself (see docs/relay.md)";

struct Settings<'a> {
    source: &'a Source,
    section: &'a Section,
}

impl Settings<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.section.option(key).map(|entry| entry.value.as_str())
    }

    fn truth(&self, key: &str, default: bool) -> Result<bool, ConfigError> {
        let Some(entry) = self.section.option(key) else { return Ok(default) };
        let wrong =
            || self.source.wrong(entry.line, format!("{key} is True or False, not '{}'", entry.value));
        ini::truth(&entry.value).ok_or_else(wrong)
    }

    fn number(&self, key: &str, default: u64) -> Result<u64, ConfigError> {
        let Some(entry) = self.section.option(key).filter(|entry| entry.value != "None") else {
            return Ok(default);
        };
        let wrong = |_| self.source.wrong(entry.line, format!("{key} is a number, not '{}'", entry.value));
        entry.value.parse().map_err(wrong)
    }

    fn line(&self, key: &str) -> usize {
        self.section.option(key).map_or(self.section.line, |entry| entry.line)
    }

    fn sibling(&self, key: &str, default: &str) -> Result<Option<Source>, ConfigError> {
        self.source.sibling(self.text(key).unwrap_or(default))
    }
}

/// Reads the file and its rule files.
pub(super) fn read(source: &Source, wanted: Option<&str>, routing: &mut Routing) -> Result<(), ConfigError> {
    let section = section(source, wanted)?;
    let settings = Settings { source, section: &section };
    let aggregates_too = section.name.starts_with("aggregator");
    note_ignored_options(&settings, routing);
    listeners(&settings, routing)?;
    statistics(&settings, aggregates_too, routing)?;
    let known = targets(&settings, routing)?;
    lists(&settings, routing)?;
    let keys = match aggregates_too {
        true => {
            aggregator(&settings, routing)?;
            Vec::new()
        }
        false => keys(&settings, routing)?,
    };
    if settings.truth("TAG_RELAY_NORMALIZED", false)? {
        routing.stages.push(Stage::Canonical);
    }
    routes(&settings, aggregates_too, &known, keys, routing)
}

/// Returns the requested section. As in carbon, options of `[relay:b]`, the instance `b`, override those
/// of `[relay]`. The default instance is `a`.
fn section(source: &Source, wanted: Option<&str>) -> Result<Section, ConfigError> {
    let config = ini::open(source)?;
    let names: &[&str] = match &wanted {
        Some(name) => &[name],
        None => &["relay", "aggregator"],
    };
    for name in names {
        let (program, instance) = name.split_once(':').unwrap_or((name, "a"));
        let shared = ini::section(source, &config, program)?;
        let own = ini::section(source, &config, &format!("{program}:{instance}"))?;
        match (own, shared) {
            (Some(mut own), Some(shared)) => {
                let more = shared.options.into_iter().filter(|option| own.option(&option.name).is_none());
                let more: Vec<_> = more.collect();
                own.options.extend(more);
                return Ok(own);
            }
            (Some(own), None) => return Ok(own),
            (None, Some(shared)) if !name.contains(':') => return Ok(shared),
            (None, _) => {}
        }
    }
    Err(source.wrong(1, format!("there is no section [{}]", names.join("] or ["))))
}

fn note_ignored_options(settings: &Settings<'_>, routing: &mut Routing) {
    for entry in &settings.section.options {
        if !SUPPORTED_OPTIONS.iter().any(|key| entry.name.eq_ignore_ascii_case(key)) {
            routing.note(settings.source, entry.line, &entry.name.to_ascii_uppercase(), OTHERWISE, false);
        }
    }
}

/// Returns whether connections to targets are encrypted.
fn encryption(settings: &Settings<'_>, routing: &mut Routing) -> Option<Encryption> {
    let key = "DESTINATION_TRANSPORT";
    let value = settings.text(key).filter(|value| ini::truth(value) != Some(false))?;
    if value.eq_ignore_ascii_case("none") {
        return None;
    }
    if !value.eq_ignore_ascii_case("ssl") {
        let why = "connections to targets are plain (none) or encrypted (ssl)";
        routing.note(settings.source, settings.line(key), key, why, true);
        return None;
    }
    let authorities = settings.text("DESTINATION_SSL_CA").filter(|path| !path.is_empty());
    Some(Encryption { authorities: authorities.map(Into::into), identity: None })
}

fn listeners(settings: &Settings<'_>, routing: &mut Routing) -> Result<(), ConfigError> {
    let kinds = [
        ("LINE", Transport::Tcp, Protocol::Line, 2003, true),
        ("UDP", Transport::Udp, Protocol::Line, 2003, settings.truth("ENABLE_UDP_LISTENER", false)?),
        ("PICKLE", Transport::Tcp, Protocol::Pickle, 2004, true),
    ];
    for (kind, transport, protocol, default, is_on) in kinds {
        let port = settings.number(&format!("{kind}_RECEIVER_PORT"), default)?;
        let interface = settings.text(&format!("{kind}_RECEIVER_INTERFACE")).unwrap_or("0.0.0.0");
        if !is_on || port == 0 {
            continue;
        }
        let is_ipv6 = interface.contains(':') && !interface.starts_with('[');
        let interface = if is_ipv6 { format!("[{interface}]") } else { interface.to_owned() };
        routing.listeners.push(Listener { address: format!("{interface}:{port}"), transport, protocol });
    }
    Ok(())
}

fn statistics(
    settings: &Settings<'_>,
    aggregates_too: bool,
    routing: &mut Routing,
) -> Result<(), ConfigError> {
    let prefix = settings.text("CARBON_METRIC_PREFIX").unwrap_or("carbon");
    let kind = if aggregates_too { "aggregator" } else { "relays" };
    let every = settings.number("CARBON_METRIC_INTERVAL", 60)?;
    routing.statistics = Statistics {
        prefix: format!("{prefix}.{kind}.HOST"),
        every: (every > 0).then(|| Duration::from_secs(every)),
        clusters: None,
    };
    Ok(())
}

/// Returns the targets with their nodes.
fn targets(settings: &Settings<'_>, routing: &mut Routing) -> Result<Vec<(Node, usize)>, ConfigError> {
    let line = settings.line("DESTINATIONS");
    let Some(list) = settings.text("DESTINATIONS").filter(|list| !list.is_empty()) else {
        return Err(settings.source.wrong(line, "DESTINATIONS names no target"));
    };
    let (protocol, transport) = match settings.text("DESTINATION_PROTOCOL").unwrap_or("pickle") {
        "pickle" => (Protocol::Pickle, Transport::Tcp),
        "line" => (Protocol::Line, Transport::Tcp),
        "udp" => (Protocol::Line, Transport::Udp),
        other => {
            let why = "targets take line, udp or pickle";
            routing.note(settings.source, settings.line("DESTINATION_PROTOCOL"), other, why, true);
            (Protocol::Pickle, Transport::Tcp)
        }
    };
    let encryption = encryption(settings, routing).filter(|_| transport == Transport::Tcp);
    let mut known = Vec::new();
    for text in list.split(',') {
        let node = destination::carbon(text).map_err(|why| settings.source.wrong(line, why))?;
        let target =
            Target { protocol, transport, encryption: encryption.clone(), ..Target::new(node.clone()) };
        known.push((node, routing.target(target)));
    }
    Ok(known)
}

fn lists(settings: &Settings<'_>, routing: &mut Routing) -> Result<(), ConfigError> {
    if !settings.truth("USE_WHITELIST", false)? {
        return Ok(());
    }
    if let Some(file) = settings.source.sibling("blacklist.conf")? {
        let found = expressions(&file, routing);
        routing.stages.extend(found.map(Stage::Block));
    }
    if let Some(file) = settings.source.sibling("whitelist.conf")? {
        let found = expressions(&file, routing);
        routing.stages.extend(found.map(Stage::Allow));
    }
    Ok(())
}

/// Adds the stages of an aggregator that precede its routes.
fn aggregator(settings: &Settings<'_>, routing: &mut Routing) -> Result<(), ConfigError> {
    let rewriting = settings.sibling("REWRITE_RULES", "rewrite-rules.conf")?;
    if let Some(file) = &rewriting {
        rewrites(file, "pre", routing);
    }
    let forwards = settings.truth("FORWARD_ALL", true)?;
    if let Some(file) = settings.sibling("AGGREGATION_RULES", "aggregation-rules.conf")? {
        let write_back = settings.number("WRITE_BACK_FREQUENCY", u64::MAX)?;
        let intervals = u32::try_from(settings.number("MAX_AGGREGATION_INTERVALS", 5)?).unwrap_or(u32::MAX);
        let rules = aggregates(&file, Some(write_back), intervals.min(1_000), routing);
        let after = routing.stages.len() + rules.len() + usize::from(!forwards);
        for mut rule in rules {
            rule.output = Output::Stage(after);
            routing.stages.push(Stage::Aggregate(rule));
        }
    }
    if !forwards {
        routing.stages.push(Stage::Block(Matcher::everything()));
    }
    if let Some(file) = &rewriting {
        rewrites(file, "post", routing);
    }
    Ok(())
}

/// Returns the rewrites that compute the ring key of a name.
fn keys(settings: &Settings<'_>, routing: &mut Routing) -> Result<Vec<Rewrite>, ConfigError> {
    if !settings.text("RELAY_METHOD").unwrap_or("rules").contains("aggregated") {
        return Ok(Vec::new());
    }
    let Some(file) = settings.sibling("AGGREGATION_RULES", "aggregation-rules.conf")? else {
        return Ok(Vec::new());
    };
    let rules = aggregates(&file, None, 1, routing);
    let mut keys = Vec::new();
    for rule in rules {
        let expression = rule.expressions.into_iter().next();
        let name = rule.computes.into_iter().next();
        if let (Some(expression), Some(compute)) = (expression, name) {
            let pattern = Pattern::Expression(expression);
            keys.push(Rewrite { pattern, replacement: compute.name, times: Some(1), except: None });
        }
    }
    Ok(keys)
}

fn routes(
    settings: &Settings<'_>,
    aggregates_too: bool,
    known: &[(Node, usize)],
    keys: Vec<Rewrite>,
    routing: &mut Routing,
) -> Result<(), ConfigError> {
    let method = match aggregates_too {
        true => "consistent-hashing",
        false => settings.text("RELAY_METHOD").unwrap_or("rules"),
    };
    let hash = settings.text("ROUTER_HASH_TYPE").filter(|hash| !hash.is_empty() && *hash != "None");
    let (origin, hash) = match method {
        "rules" => {
            return match settings.sibling("RELAY_RULES", "relay-rules.conf")? {
                Some(file) => relay_rules(&file, known, routing),
                None => {
                    let reason = "RELAY_METHOD is rules, but this directory has no relay-rules.conf";
                    Err(settings.source.wrong(settings.line("RELAY_METHOD"), reason))
                }
            };
        }
        "consistent-hashing" | "aggregated-consistent-hashing" => ("carbon", hash.unwrap_or("carbon_ch")),
        "fast-hashing" | "fast-aggregated-hashing" => ("carbon-fast", hash.unwrap_or("mmh3_ch")),
        other => {
            let reason = format!(
                "RELAY_METHOD '{other}' is none of rules, consistent-hashing, aggregated-consistent-hashing, \
                 fast-hashing and fast-aggregated-hashing"
            );
            return Err(settings.source.wrong(settings.line("RELAY_METHOD"), reason));
        }
    };
    // Carbon treats every other text as carbon_ch.
    let hash = if ["fnv1a_ch", "mmh3_ch"].contains(&hash) { hash } else { "carbon_ch" };
    let kind = Kind::named(origin, hash)
        .ok_or_else(|| settings.source.wrong(settings.line("ROUTER_HASH_TYPE"), "there is no such ring"))?;
    let copies = settings.number("REPLICATION_FACTOR", 1)?.min(crate::ring::NODES_MAX as u64) as usize;
    let rule = if settings.truth("DIVERSE_REPLICAS", true)? { Rule::Hosts } else { Rule::Ring };
    let moves = settings.truth("DYNAMIC_ROUTER", false)?;
    let targets = known.iter().map(|(_, target)| *target).collect();
    let method = Method::Ring { kind, copies, rule, moves };
    let cluster = routing.add_cluster("destinations", method, targets);
    let matcher = Matcher::everything();
    routing.stages.push(Stage::Route(Route {
        matcher,
        validation: None,
        clusters: vec![cluster],
        stops: true,
        keys,
    }));
    Ok(())
}
