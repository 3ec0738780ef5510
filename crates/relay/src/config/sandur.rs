//! Reads our own format. In addition to what the others express, it has zones, replicas by list, several
//! connections per target, and the spool. It can extend a file of another relay (`import`).

use std::path::PathBuf;
use std::time::Duration;

use sandur_base::units;

use super::destination;
use super::source::{ConfigError, Source};
use super::tables::{self, Table};
use crate::model::aggregate::{Aggregate, Output};
use crate::model::matcher::{Matcher, compile};
use crate::model::rewrite::{Pattern, Rewrite};
use crate::model::template::Template;
use crate::model::{
    Encryption, Listener, Method, Packing, Protocol, Route, Routing, Stage, Target, Transport, Validation,
};
use crate::replicas::Rule;
use crate::ring::{Kind, NODES_MAX};

/// Reads the file of another relay, with the section that applies; `None` if its format is our own.
type ReadOther<'a> = &'a dyn Fn(&Source, Option<&str>) -> Result<Option<Routing>, ConfigError>;

/// Reads a file. `read_other` reads the file that it imports.
pub(super) fn read(
    source: &Source,
    routing: &mut Routing,
    read_other: ReadOther<'_>,
) -> Result<(), ConfigError> {
    let parsed = tables::parse(source)?;
    let mut file = Table::new(source, 1, parsed.get_ref());
    if let Some(imported) = import(source, &mut file, read_other)? {
        *routing = imported;
    }
    for (text, line) in file.texts("listen")? {
        let (address, transports) = transports(text);
        check_address(address).map_err(|why| source.wrong(line, why))?;
        for transport in transports {
            let listener = Listener { address: address.to_owned(), transport, protocol: Protocol::Line };
            routing.listeners.push(listener);
        }
    }
    for (address, line) in file.texts("listen_pickle")? {
        check_address(address).map_err(|why| source.wrong(line, why))?;
        let (transport, protocol) = (Transport::Tcp, Protocol::Pickle);
        routing.listeners.push(Listener { address: address.to_owned(), transport, protocol });
    }
    if let Some(cleans) = file.truth("clean_names")? {
        routing.cleans_names = cleans;
    }
    if let Some(directory) = file.text("spool_directory")? {
        routing.spool_directory = Some(directory.to_owned());
    }
    for mut table in file.tables("cluster")? {
        cluster(source, &mut table, routing)?;
        refuse_rest(source, &table)?;
    }
    let mut own = Vec::new();
    for mut table in file.tables("stage")? {
        own.push(stage(source, &mut table, routing)?);
        refuse_rest(source, &table)?;
    }
    before(own, routing);
    if let Some(mut table) = file.table("statistics")? {
        if let Some(prefix) = table.text("prefix")? {
            routing.statistics.prefix = prefix.to_owned();
        }
        if let Some(every) = table.text("every")? {
            let every = units::parse_duration(every);
            let every = every.map_err(|error| source.wrong(table.line(), error.to_string()))?;
            routing.statistics.every = (every > Duration::ZERO).then_some(every);
        }
        refuse_rest(source, &table)?;
    }
    refuse_rest(source, &file)
}

/// Puts our own stages before those of an imported file, whose routes often stop. Stage indexes of
/// imported rules are shifted.
fn before(own: Vec<Stage>, routing: &mut Routing) {
    for imported in &mut routing.stages {
        if let Stage::Aggregate(Aggregate { output: Output::Stage(first), .. }) = imported {
            *first += own.len();
        }
    }
    routing.stages.splice(0..0, own);
}

/// In our own format an unknown key is an error.
fn refuse_rest(source: &Source, table: &Table<'_>) -> Result<(), ConfigError> {
    match table.rest().into_iter().next() {
        None => Ok(()),
        Some((key, line)) => Err(source.wrong(line, format!("there is no key '{key}' here"))),
    }
}

fn import(
    source: &Source,
    file: &mut Table<'_>,
    read_other: ReadOther<'_>,
) -> Result<Option<Routing>, ConfigError> {
    let section = file.text("import_section")?;
    let Some(name) = file.text("import")? else { return Ok(None) };
    let wrong = |why: String| source.wrong(file.line(), why);
    let other = source.sibling(name)?.ok_or_else(|| wrong(format!("import: there is no file {name}")))?;
    let read = read_other(&other, section)?;
    let has_own_format =
        || wrong(format!("import: {name} has this format already; import a file of another relay"));
    read.map(Some).ok_or_else(has_own_format)
}

/// Parses `tcp://ADDRESS`, `udp://ADDRESS`, or `ADDRESS` for both.
fn transports(text: &str) -> (&str, Vec<Transport>) {
    if let Some(address) = text.strip_prefix("tcp://") {
        (address, vec![Transport::Tcp])
    } else if let Some(address) = text.strip_prefix("udp://") {
        (address, vec![Transport::Udp])
    } else {
        (text, vec![Transport::Tcp, Transport::Udp])
    }
}

fn check_address(address: &str) -> Result<(), String> {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    port.map(drop).ok_or(format!("'{address}' is not ADDRESS:PORT"))
}

fn cluster(source: &Source, table: &mut Table<'_>, routing: &mut Routing) -> Result<(), ConfigError> {
    let line = table.line();
    let wrong = |why: String| source.wrong(line, why);
    let name = table.text("name")?.ok_or_else(|| wrong("a cluster has no name".to_owned()))?;
    if routing.cluster(name).is_some() {
        return Err(wrong(format!("there is another cluster '{name}'")));
    }
    let method = method(table, &wrong)?;
    let connections = table.number("connections")?.unwrap_or(1);
    let connections = u16::try_from(connections).ok().filter(|count| (1..=64).contains(count));
    let connections = connections.ok_or_else(|| wrong("'connections' must be 1 to 64".to_owned()))?;
    let protocol = match table.truth("pickle")?.unwrap_or(false) {
        true => Protocol::Pickle,
        false => Protocol::Line,
    };
    let spools = table.truth("spool")?.unwrap_or(true);
    let (packing, encryption) = wrapping(table, &wrong)?;
    let mut targets = Vec::new();
    for (text, line) in table.texts("targets")? {
        let (text, transport) = match text.strip_prefix("udp://") {
            Some(text) => (text, Transport::Udp),
            None => (text, Transport::Tcp),
        };
        let (text, zone) = match text.rsplit_once('@') {
            Some((text, zone)) => (text, Some(zone.to_owned())),
            None => (text, None),
        };
        let mut node = destination::relay(text).map_err(|why| source.wrong(line, why))?;
        node.zone = zone;
        if transport == Transport::Udp && (packing != Packing::Plain || encryption.is_some()) {
            return Err(source.wrong(line, "datagrams are neither compressed nor encrypted"));
        }
        let (plain, encryption) = (Target::new(node), encryption.clone());
        let target = Target { transport, protocol, packing, encryption, connections, spools, ..plain };
        targets.push(routing.target(target));
    }
    if targets.is_empty() || targets.len() > NODES_MAX {
        return Err(wrong(format!("cluster '{name}' has {} targets: 1 to {NODES_MAX}", targets.len())));
    }
    routing.add_cluster(name, method, targets);
    Ok(())
}

/// Reads how connections of a cluster are compressed and encrypted.
fn wrapping(
    table: &mut Table<'_>,
    wrong: &dyn Fn(String) -> ConfigError,
) -> Result<(Packing, Option<Encryption>), ConfigError> {
    let name = table.text("compression")?.unwrap_or("plain");
    let packing = Packing::named(name);
    let packing = packing
        .ok_or_else(|| wrong(format!("there is no compression '{name}': plain, gzip, lz4 or zstd")))?;
    let is_encrypted = table.truth("tls")?;
    let authorities = table.text("tls_ca_file")?.map(PathBuf::from);
    let identity = match (table.text("tls_cert_file")?, table.text("tls_key_file")?) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (None, None) => None,
        _ => return Err(wrong("'tls_cert_file' and 'tls_key_file' must be set together".to_owned())),
    };
    let names_files = authorities.is_some() || identity.is_some();
    if is_encrypted == Some(false) && names_files {
        return Err(wrong("files for TLS are named, but 'tls' is false".to_owned()));
    }
    let is_encrypted = is_encrypted.unwrap_or(names_files);
    Ok((packing, is_encrypted.then_some(Encryption { authorities, identity })))
}

fn method(table: &mut Table<'_>, wrong: &dyn Fn(String) -> ConfigError) -> Result<Method, ConfigError> {
    let copies = table.number("copies")?.unwrap_or(1).clamp(1, NODES_MAX as u64) as usize;
    let replicas = table.text("replicas")?.unwrap_or("ring");
    let moves = table.truth("failover")?.unwrap_or(false);
    let ring = table.text("ring")?;
    let plain = table.text("method")?;
    let rule = Rule::named(replicas).ok_or_else(|| {
        let names: Vec<&str> = Rule::NAMES.iter().map(|(name, _, _)| *name).collect();
        wrong(format!("there are no replicas '{replicas}': {}", names.join(", ")))
    })?;
    match (plain, ring) {
        (Some("all"), None) => Ok(Method::All),
        (Some("any_of"), None) => Ok(Method::AnyOf),
        (Some("failover"), None) => Ok(Method::Failover),
        (Some("nowhere"), None) => Ok(Method::Nowhere),
        (None, Some(name)) => {
            let kind = Kind::of(name).ok_or_else(|| wrong(format!("there is no ring '{name}'")))?;
            Ok(Method::Ring { kind, copies, rule, moves })
        }
        _ => Err(wrong(
            "a cluster must have a 'ring' or a 'method': all, any_of, failover or nowhere".to_owned(),
        )),
    }
}

fn stage(source: &Source, table: &mut Table<'_>, routing: &Routing) -> Result<Stage, ConfigError> {
    let line = table.line();
    let compiled = |text: &str| compile(text, false).map_err(|error| source.wrong(line, error.to_string()));
    if let Some(text) = table.text("block")? {
        return Ok(Stage::Block(Matcher::any_of(vec![compiled(text)?])));
    }
    if let Some(text) = table.text("allow")? {
        return Ok(Stage::Allow(Matcher::any_of(vec![compiled(text)?])));
    }
    if let Some(text) = table.text("rewrite")? {
        let expression = compiled(text)?;
        let replacement = Template::go(table.text_or_empty("into")?, &expression);
        let pattern = Pattern::Expression(expression);
        return Ok(Stage::Rewrite(Rewrite { pattern, replacement, times: None, except: None }));
    }
    let mut clusters = Vec::new();
    for (name, line) in table.texts("to")? {
        let unknown = || source.wrong(line, format!("there is no cluster '{name}'"));
        clusters.push(routing.cluster(name).ok_or_else(unknown)?);
    }
    let validation = validation(source, table)?;
    if clusters.is_empty() && validation.is_none() {
        let forms =
            "a stage must have 'block', 'allow', 'rewrite' with 'into', 'validate', or 'to' with clusters";
        return Err(source.wrong(line, forms));
    }
    let mut expressions = Vec::new();
    for (text, _) in table.texts("match")? {
        expressions.push(compiled(text)?);
    }
    let matcher = if expressions.is_empty() { Matcher::everything() } else { Matcher::any_of(expressions) };
    let stops = table.truth("stop")?.unwrap_or(false);
    Ok(Stage::Route(Route { matcher, validation, clusters, stops, keys: Vec::new() }))
}

/// Reads the condition on the data of points, if the stage has one.
fn validation(source: &Source, table: &mut Table<'_>) -> Result<Option<Validation>, ConfigError> {
    let logs = table.truth("log_invalid")?;
    let Some(text) = table.text("validate")? else {
        return match logs {
            None => Ok(None),
            Some(_) => Err(source.wrong(table.line(), "'log_invalid' has an effect with 'validate' only")),
        };
    };
    let expression = compile(text, false).map_err(|error| source.wrong(table.line(), error.to_string()))?;
    Ok(Some(Validation { data: Matcher::any_of(vec![expression]), logs: logs.unwrap_or(false) }))
}
