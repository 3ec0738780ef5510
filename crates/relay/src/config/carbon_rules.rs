//! Reads the files that belong to `carbon.conf`: relay-rules, aggregation-rules, rewrite-rules,
//! blacklist and whitelist.

use std::time::Duration;

use super::destination;
use super::ini;
use super::source::{ConfigError, Source};
use crate::model::aggregate::{Aggregate, Closing, Compute, Function, Output, Stamp};
use crate::model::matcher::{Matcher, compile};
use crate::model::rewrite::{Pattern, Rewrite};
use crate::model::template::Template;
use crate::model::{Method, Route, Routing, Stage};
use crate::node::Node;

/// Reads `relay-rules.conf`: routes in the order of the file, the default last. As in carbon,
/// destinations that are not in `known` get no points.
pub(super) fn relay_rules(
    source: &Source,
    known: &[(Node, usize)],
    routing: &mut Routing,
) -> Result<(), ConfigError> {
    let mut default = None;
    for section in ini::rules(source)? {
        let Some(destinations) = section.option("destinations") else {
            let reason = format!("section [{}] has no 'destinations'", section.name);
            return Err(source.wrong(section.line, reason));
        };
        let mut targets = Vec::new();
        for text in destinations.value.split(',') {
            let node = destination::carbon(text).map_err(|why| source.wrong(destinations.line, why))?;
            match known.iter().find(|(own, _)| *own == node) {
                Some((_, target)) => targets.push(*target),
                None => {
                    let why = "it is not in DESTINATIONS, so nothing is sent there (as in carbon)";
                    routing.note(source, destinations.line, text.trim(), why, false);
                }
            }
        }
        let flag = |name: &str| section.option(name).map(|entry| (entry.line, ini::truth(&entry.value)));
        let pattern = section.option("pattern");
        match (pattern, flag("default")) {
            (Some(_), Some((line, _))) => {
                return Err(source.wrong(line, "a section must have either 'pattern' or 'default', not both"));
            }
            (Some(pattern), None) => {
                let cluster = routing.add_cluster(&section.name, Method::All, targets);
                let stops = flag("continue").is_none_or(|(_, value)| value != Some(true));
                match compile(&pattern.value, true) {
                    Ok(expression) => {
                        let matcher = Matcher::any_of(vec![expression]);
                        let route = Route {
                            matcher,
                            validation: None,
                            clusters: vec![cluster],
                            stops,
                            keys: Vec::new(),
                        };
                        routing.stages.push(Stage::Route(route));
                    }
                    Err(error) => {
                        routing.note(source, pattern.line, &pattern.value, error.to_string(), true);
                    }
                }
            }
            (None, Some((line, Some(true)))) => {
                if default.replace(targets).is_some() {
                    return Err(source.wrong(line, "only one section can have 'default = true'"));
                }
            }
            (None, _) => {}
        }
    }
    let Some(targets) = default else {
        return Err(source.wrong(1, "no section has 'default = true'; carbon requires exactly one"));
    };
    let cluster = routing.add_cluster("default", Method::All, targets);
    let matcher = Matcher::everything();
    let route = Route { matcher, validation: None, clusters: vec![cluster], stops: true, keys: Vec::new() };
    routing.stages.push(Stage::Route(route));
    Ok(())
}

/// Reads `blacklist.conf` or `whitelist.conf`: one expression per line. Lines that do not compile are
/// skipped with a note. Returns `None` if no expression is left.
pub(super) fn expressions(source: &Source, routing: &mut Routing) -> Option<Matcher> {
    let mut all = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let pattern = line.trim();
        if line.starts_with('#') || pattern.is_empty() {
            continue;
        }
        match compile(pattern, false) {
            Ok(expression) => all.push(expression),
            Err(error) => routing.note(source, index + 1, pattern, error.to_string(), true),
        }
    }
    (!all.is_empty()).then(|| Matcher::any_of(all))
}

/// Reads `rewrite-rules.conf`: rules before (`pre`) and after (`post`) aggregation.
pub(super) fn rewrites(source: &Source, section: &str, routing: &mut Routing) {
    let (mut current, before) = (String::new(), routing.stages.len());
    for (index, raw) in source.text.lines().enumerate() {
        let line = raw.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            current = name.to_ascii_lowercase();
            // As in carbon, a repeated section replaces the earlier one.
            if current == section {
                routing.stages.truncate(before);
            }
            continue;
        }
        if current != section {
            continue;
        }
        let rule =
            line.split_once('=').ok_or("it is neither a [section] nor 'expression = replacement'".to_owned());
        let rule = rule.and_then(|(pattern, replacement)| {
            let expression = compile(pattern.trim(), false).map_err(|error| error.to_string())?;
            let replacement = Template::python(replacement.trim(), &expression)?;
            let pattern = Pattern::Expression(expression);
            Ok(Rewrite { pattern, replacement, times: None, except: None })
        });
        match rule {
            Ok(rewrite) => routing.stages.push(Stage::Rewrite(rewrite)),
            Err(why) => routing.note(source, index + 1, line, why, true),
        }
    }
}

/// Reads `aggregation-rules.conf`; `write_back` and `intervals` are the values of carbon's settings.
pub(super) fn aggregates(
    source: &Source,
    write_back: Option<u64>,
    intervals: u32,
    routing: &mut Routing,
) -> Vec<Aggregate> {
    let mut rules = Vec::new();
    for (index, raw) in source.text.lines().enumerate() {
        let line = raw.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match aggregate(line, write_back, intervals) {
            Ok(aggregate) => rules.push(aggregate),
            Err(why) => routing.note(source, index + 1, line, why, true),
        }
    }
    rules
}

fn aggregate(line: &str, write_back: Option<u64>, intervals: u32) -> Result<Aggregate, String> {
    let form = || "it is not 'output (seconds) = method input'".to_owned();
    let (left, right) = line.split_once('=').ok_or_else(form)?;
    let [output, frequency] = words(left).ok_or_else(form)?;
    let [method, input] = words(right).ok_or_else(form)?;
    let seconds = frequency.trim_start_matches('(').trim_end_matches(')');
    let interval: u32 = seconds.parse().map_err(|_| format!("'{seconds}' is not a number of seconds"))?;
    if interval == 0 {
        return Err("an interval must be at least 1 second".to_owned());
    }
    let function = function(method).ok_or(format!("carbon has no method '{method}'"))?;
    let expression = compile(&input_expression(input), false).map_err(|error| error.to_string())?;
    let name = Template::fields(output, &expression)?;
    let every = write_back.map_or(interval.into(), |own| own.clamp(1, interval.into()));
    Ok(Aggregate {
        matcher: Matcher::everything(),
        expressions: vec![expression],
        interval,
        closing: Closing::Repeated { every: Duration::from_secs(every), intervals },
        stamp: Stamp::Start,
        computes: vec![Compute { function, name }],
        output: Output::Stage(0),
        stops: false,
    })
}

fn words(text: &str) -> Option<[&str; 2]> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.try_into().ok()
}

fn function(method: &str) -> Option<Function> {
    Some(match method {
        "sum" => Function::Sum,
        "avg" => Function::Average,
        "min" => Function::Min,
        "max" => Function::Max,
        "count" => Function::Count,
        "p50" => Function::Quantile(0.5),
        "p75" => Function::Quantile(0.75),
        "p80" => Function::Quantile(0.8),
        "p90" => Function::Quantile(0.9),
        "p95" => Function::Quantile(0.95),
        "p99" => Function::Quantile(0.99),
        "p999" => Function::Quantile(0.999),
        _ => return None,
    })
}

/// Builds the expression of an input pattern. A node may contain `<field>`, `<<field>>` across dots,
/// `*`, or regular expressions; the whole is anchored at both ends.
fn input_expression(input: &str) -> String {
    let node = |part: &str| {
        let wide = part.find("<<").zip(part.find(">>")).filter(|(start, end)| end > start);
        let narrow = part.find('<').zip(part.find('>')).filter(|(start, end)| end > start);
        match (wide, narrow) {
            (Some((start, end)), _) => {
                format!("{}(?P<{}>.+?){}", &part[..start], &part[start + 2..end], &part[end + 2..])
            }
            (None, Some((start, end))) => {
                format!("{}(?P<{}>[^.]+?){}", &part[..start], &part[start + 1..end], &part[end + 1..])
            }
            (None, None) if part == "*" => "[^.]+".to_owned(),
            (None, None) => part.replace('*', "[^.]*"),
        }
    };
    let nodes: Vec<String> = input.split('.').map(node).collect();
    format!("^(?:{})$", nodes.join("\\."))
}
