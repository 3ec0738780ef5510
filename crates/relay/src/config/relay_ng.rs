//! Reads carbon-relay-ng's TOML: blocklist, rewriters, aggregations and routes, which a point passes in
//! this order.

use std::time::Duration;

use super::relay_ng_destination;
use super::source::{ConfigError, Source};
use super::tables::{self, Table};
use crate::model::aggregate::{Aggregate, Closing, Compute, Function, Output, Stamp};
use crate::model::matcher::{BadExpression, Matcher, compile};
use crate::model::rewrite::{Pattern, Rewrite};
use crate::model::template::Template;
use crate::model::{Listener, Method, Protocol, Route, Routing, Stage, Transport};
use crate::replicas::Rule;
use crate::ring::Kind;

/// Reads a file.
pub(super) fn read(source: &Source, routing: &mut Routing) -> Result<(), ConfigError> {
    let parsed = tables::parse(source)?;
    let mut file = Table::new(source, 1, parsed.get_ref());
    listeners(&mut file, routing)?;
    routing.spool_directory = file.text("spool_dir")?.map(str::to_owned);
    if let Some(instance) = file.text("instance")?.filter(|own| !own.is_empty()) {
        routing.statistics.prefix = format!("carbon.relays.{}", instance.replace("${HOST}", "HOST"));
    }
    let first_only = file.truth("first_only")?.unwrap_or(false);
    if let Some(mut init) = file.table("init")? {
        for (command, line) in init.texts("cmds")? {
            let why =
                "commands are not run: write it as [[route]], [[aggregation]], [[rewriter]] or blocklist";
            routing.note(source, line, command, why, true);
        }
    }
    for key in ["blocklist", "blacklist"] {
        for (entry, line) in file.texts(key)? {
            let matcher = blocked(entry).map_err(|why| source.wrong(line, why))?;
            routing.stages.push(Stage::Block(matcher));
        }
    }
    for mut table in file.tables("rewriter")? {
        match rewriter(&mut table)? {
            Ok(rewrite) => routing.stages.push(Stage::Rewrite(rewrite)),
            Err(why) => routing.note(source, table.line(), "[[rewriter]]", why, true),
        }
    }
    let aggregations = file.tables("aggregation")?;
    let after = routing.stages.len() + aggregations.len();
    for mut table in aggregations {
        let line = table.line();
        match aggregation(&mut table, after)? {
            Ok(aggregate) => routing.stages.push(Stage::Aggregate(aggregate)),
            Err(why) => return Err(source.wrong(line, why)),
        }
        leftovers(source, &table, routing);
    }
    for mut table in file.tables("route")? {
        route(source, &mut table, first_only, routing)?;
    }
    leftovers(source, &file, routing);
    Ok(())
}

fn leftovers(source: &Source, table: &Table<'_>, routing: &mut Routing) {
    for (key, line) in table.rest() {
        routing.note(source, line, &key, "the relay has no such setting", false);
    }
}

fn listeners(file: &mut Table<'_>, routing: &mut Routing) -> Result<(), ConfigError> {
    let mut listen = |address: &str, transport, protocol| {
        let address = if address.starts_with(':') { format!("0.0.0.0{address}") } else { address.to_owned() };
        routing.listeners.push(Listener { address, transport, protocol });
    };
    if let Some(address) = file.text("listen_addr")?.filter(|own| !own.is_empty()) {
        listen(address, Transport::Tcp, Protocol::Line);
        listen(address, Transport::Udp, Protocol::Line);
    }
    if let Some(address) = file.text("pickle_addr")?.filter(|own| !own.is_empty()) {
        listen(address, Transport::Tcp, Protocol::Pickle);
    }
    Ok(())
}

fn blocked(entry: &str) -> Result<Matcher, String> {
    let (kind, text) = entry.split_once(' ').ok_or(format!("'{entry}' is not 'kind text'"))?;
    let all = Matcher::everything();
    Ok(match kind {
        "prefix" | "notPrefix" => all.prefix(text, kind == "notPrefix"),
        "sub" | "notSub" => all.part(text, kind == "notSub"),
        "regex" | "notRegex" => {
            all.expression(text, kind == "notRegex").map_err(|error| error.to_string())?
        }
        _ => return Err(format!("there is no matcher '{kind}'")),
    })
}

/// Reads the matcher of a table; `sub` may also be called `substr`.
fn matcher(table: &mut Table<'_>) -> Result<Result<Matcher, BadExpression>, ConfigError> {
    let older = table.text_or_empty("substr")?;
    let sub = Some(table.text_or_empty("sub")?).filter(|own| !own.is_empty()).unwrap_or(older);
    let matcher = Matcher::everything()
        .prefix(table.text_or_empty("prefix")?, false)
        .prefix(table.text_or_empty("notPrefix")?, true)
        .part(sub, false)
        .part(table.text_or_empty("notSub")?, true);
    let (regex, not) = (table.text_or_empty("regex")?, table.text_or_empty("notRegex")?);
    Ok(matcher.expression(regex, false).and_then(|matcher| matcher.expression(not, true)))
}

fn rewriter(table: &mut Table<'_>) -> Result<Result<Rewrite, String>, ConfigError> {
    let (old, new) = (table.text_or_empty("old")?, table.text_or_empty("new")?);
    let not = table.text_or_empty("not")?;
    // `number` rejects negative numbers, but -1 means no limit here.
    let times = match table.value("max") {
        None => Some(0),
        Some((value, _)) => value.as_integer().and_then(|number| number.as_str().parse::<usize>().ok()),
    };
    Ok(rewrite(old, new, not, times))
}

fn rewrite(old: &str, new: &str, not: &str, times: Option<usize>) -> Result<Rewrite, String> {
    if old.is_empty() {
        return Err("'old' is empty".to_owned());
    }
    let except = match expression(not) {
        Some(inner) => {
            Some(Matcher::everything().expression(inner, false).map_err(|error| error.to_string())?)
        }
        None if not.is_empty() => None,
        None => Some(Matcher::everything().part(not, false)),
    };
    let (pattern, replacement) = match expression(old) {
        Some(inner) => {
            if times.is_some() {
                return Err("'max' must be -1 where 'old' is an expression".to_owned());
            }
            let compiled = compile(inner, false).map_err(|error| error.to_string())?;
            let replacement = Template::go(new, &compiled);
            (Pattern::Expression(compiled), replacement)
        }
        None => (Pattern::Text(old.into()), Template::text(new)),
    };
    Ok(Rewrite { pattern, replacement, times, except })
}

/// Returns the text between slashes, if there are any.
fn expression(text: &str) -> Option<&str> {
    text.strip_prefix('/')?.strip_suffix('/')
}

fn aggregation(table: &mut Table<'_>, after: usize) -> Result<Result<Aggregate, String>, ConfigError> {
    let regex = table.text_or_empty("regex")?;
    let function = table.text_or_empty("function")?;
    let format = table.text_or_empty("format")?;
    let (interval, wait) = (table.number("interval")?.unwrap_or(0), table.number("wait")?.unwrap_or(0));
    let stops = table.truth("dropRaw")?.unwrap_or(false);
    let _ = table.truth("cache")?;
    let matcher = match matcher(table)? {
        Ok(matcher) => matcher,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let Some(interval) = u32::try_from(interval).ok().filter(|interval| *interval > 0) else {
        return Ok(Err("'interval' must be a number of seconds, at least 1".to_owned()));
    };
    Ok(compile(regex, false).map_err(|error| error.to_string()).and_then(|expression| {
        let name = |suffix: &str| Template::go(&format!("{format}{suffix}"), &expression);
        let computes = computes(function, name).ok_or(format!("there is no function '{function}'"))?;
        // The original program computes an interval `wait` seconds after its start.
        let closing = Closing::After(Duration::from_secs(wait.max(1)));
        let (stamp, output) = (Stamp::Start, Output::Stage(after));
        let expressions = vec![expression];
        Ok(Aggregate { matcher, expressions, interval, closing, stamp, computes, output, stops })
    }))
}

fn computes(function: &str, name: impl Fn(&str) -> Template) -> Option<Vec<Compute>> {
    let one = |function| Some(vec![Compute { function, name: name("") }]);
    match function {
        "avg" => one(Function::Average),
        "count" => one(Function::Count),
        "delta" => one(Function::Delta),
        "derive" => one(Function::Derive),
        "last" => one(Function::Last),
        "max" => one(Function::Max),
        "min" => one(Function::Min),
        "stdev" => one(Function::Deviation),
        "sum" => one(Function::Sum),
        "percentiles" => {
            let percents = [25, 50, 75, 90, 95, 99];
            let compute = |percent: u8| Compute {
                function: Function::Exclusive(f64::from(percent)),
                name: name(&format!(".p{percent}")),
            };
            Some(percents.map(compute).into())
        }
        _ => None,
    }
}

fn route(
    source: &Source,
    table: &mut Table<'_>,
    first_only: bool,
    routing: &mut Routing,
) -> Result<(), ConfigError> {
    let line = table.line();
    let key = table.text_or_empty("key")?;
    let kind = table.text_or_empty("type")?;
    let ring = |name| Kind::named("carbon-relay-ng", name);
    let method = match kind {
        "sendAllMatch" => Method::All,
        "sendFirstMatch" => Method::FirstMatch,
        _ => match ring(kind) {
            Some(kind) => Method::Ring { kind, copies: 1, rule: Rule::Ring, moves: false },
            None => {
                let why = "the relay sends to carbon targets only";
                routing.note(source, line, &format!("{key}: type {kind}"), why, true);
                return Ok(());
            }
        },
    };
    let matcher = match matcher(table)? {
        Ok(matcher) => matcher,
        Err(error) => {
            routing.note(source, line, key, error.to_string(), true);
            return Ok(());
        }
    };
    let matches = !matches!(method, Method::Ring { .. });
    let mut targets = Vec::new();
    for (text, line) in table.texts("destinations")? {
        let read = relay_ng_destination::read(text, matches).map_err(|why| source.wrong(line, why))?;
        for option in read.ignored {
            let why = "queues and spools are configured for the whole relay (see docs/relay.md)";
            routing.note(source, line, &option, why, false);
        }
        targets.push(routing.target(read.target));
    }
    if targets.is_empty() {
        return Err(source.wrong(line, format!("route '{key}' has no destinations")));
    }
    let cluster = routing.add_cluster(key, method, targets);
    let (clusters, stops) = (vec![cluster], first_only);
    routing.stages.push(Stage::Route(Route { matcher, validation: None, clusters, stops, keys: Vec::new() }));
    leftovers(source, table, routing);
    Ok(())
}
