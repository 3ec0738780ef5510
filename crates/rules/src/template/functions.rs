//! The functions of Prometheus's templates, in one table.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_logql::template::{
    Function, Record, Site, Text, VALUE_BYTES, Value, function, of_go, regex_replace, text_argument,
};
use sandur_model::go_text::{format_go_duration, parse_float, parse_prometheus_duration};

use super::{data, hosts, humanize};
use crate::external::{graph_link, query_escape, table_link};

/// The function of this name.
pub fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name).or_else(|| of_go(name))
}

type Made = Result<Value, String>;

/// The functions, without those of Go.
pub const FUNCTIONS: &[Function] = &[
    function("query", (1, 1), "The samples of a query at the time of the evaluation.", |site, a| {
        site.of_host("query", &a)
    }),
    function("first", (1, 1), "The first sample of a result.", |_, a| match samples(&a[0])?.first() {
        Some(first) => Ok(first.clone()),
        None => Err("first() called on vector with no elements".to_owned()),
    }),
    function("label", (2, 2), "`label name sample`: the value of a label.", |_, a| {
        Ok(label_of(text_argument(&a[0])?, &a[1])?.map_or_else(|| data::text(""), Value::Text))
    }),
    function("value", (1, 1), "The value of a sample.", |_, a| {
        Ok(record(&a[0])?.get("Value").cloned().unwrap_or(Value::Nil))
    }),
    function("strvalue", (1, 1), "The label `__value__` of a sample.", |_, a| {
        Ok(label_of("__value__", &a[0])?.map_or_else(|| data::text(""), Value::Text))
    }),
    function("sortByLabel", (2, 2), "`sortByLabel name samples`: sorted by a label.", sort_by_label),
    function("args", (0, 99), "A map of the arguments: arg0, arg1 and so on.", args),
    function("humanize", (1, 1), "A number with a metric prefix.", |site, a| {
        made(site, humanize::decimal(site, number(&a[0])?))
    }),
    function("humanize1024", (1, 1), "A number with a prefix of powers of 1,024.", |site, a| {
        made(site, humanize::binary(site, number(&a[0])?))
    }),
    function("humanizeDuration", (1, 1), "Seconds as days, hours, minutes and seconds.", |site, a| {
        made(site, humanize::duration(site, number(&a[0])?))
    }),
    function("humanizePercentage", (1, 1), "A ratio as a percentage.", |site, a| {
        made(site, humanize::percentage(site, number(&a[0])?))
    }),
    function("humanizeTimestamp", (1, 1), "Seconds since the epoch as a time.", |site, a| {
        let seconds = number(&a[0])?;
        match seconds.is_finite() {
            true => Ok(Value::Time(humanize::time(seconds)?)),
            false => made(site, humanize::decimal(site, seconds)),
        }
    }),
    function("toTime", (1, 1), "Seconds since the epoch as a time.", |_, a| {
        humanize::time(number(&a[0])?).map(Value::Time)
    }),
    function("toDuration", (1, 1), "Seconds as a duration of Go.", |site, a| {
        let ns = number(&a[0])? * 1e9;
        match ns.is_finite() && ns.abs() < i64::MAX as f64 {
            true => made(site, Ok(format_go_duration(ns as i64))),
            false => Err(format!("{ns} cannot be represented as a nanoseconds duration")),
        }
    }),
    function("now", (0, 0), "The time of the evaluation, in seconds since the epoch.", |site, _| {
        // Prometheus's times are milliseconds.
        Ok(Value::Float(site.now_ns.div_euclid(1_000_000) as f64 / 1e3))
    }),
    function("title", (1, 1), "The first letter of each word in upper case.", |site, a| {
        made(site, Ok(title(text_argument(&a[0])?)))
    }),
    function("toUpper", (1, 1), "The text in upper case.", |site, a| {
        made(site, Ok(text_argument(&a[0])?.to_uppercase()))
    }),
    function("toLower", (1, 1), "The text in lower case.", |site, a| {
        made(site, Ok(text_argument(&a[0])?.to_lowercase()))
    }),
    function("match", (2, 2), "`match regex text`: whether a part of the text matches.", |site, a| {
        site.matches(text_argument(&a[0])?, text_argument(&a[1])?).map(Value::Bool)
    }),
    function("reReplaceAll", (3, 3), "`reReplaceAll regex replacement text`.", |site, mut a| {
        a.swap(1, 2);
        regex_replace(site, &a, false)
    }),
    function("graphLink", (1, 1), "The path of a graph of an expression.", |site, a| {
        made(site, Ok(graph_link(text_argument(&a[0])?)))
    }),
    function("tableLink", (1, 1), "The path of a table of an expression.", |site, a| {
        made(site, Ok(table_link(text_argument(&a[0])?)))
    }),
    function("urlQueryEscape", (1, 1), "The text for a parameter of a URL.", |site, a| {
        made(site, Ok(query_escape(text_argument(&a[0])?)))
    }),
    function("urlquery", (1, 1), "The text for a parameter of a URL.", |site, a| {
        made(site, Ok(query_escape(text_argument(&a[0])?)))
    }),
    function("html", (1, 1), "The text for a page in HTML.", |site, a| {
        made(site, Ok(html(text_argument(&a[0])?)))
    }),
    function("safeHtml", (1, 1), "The unchanged text.", |_, a| {
        text_argument(&a[0])?;
        Ok(a[0].clone())
    }),
    function("stripPort", (1, 1), "A host without its port.", |site, a| {
        made(site, Ok(hosts::without_port(text_argument(&a[0])?)))
    }),
    function("stripDomain", (1, 1), "A host without its domain.", |site, a| {
        made(site, Ok(hosts::without_domain(text_argument(&a[0])?)))
    }),
    function("parseDuration", (1, 1), "A duration such as 1h30m in seconds.", |_, a| {
        let ns = parse_prometheus_duration(text_argument(&a[0])?)?;
        Ok(Value::Float(ns as f64 / 1e9))
    }),
    function("externalURL", (0, 0), "The URL of this server.", |site, a| site.of_host("externalURL", &a)),
    function("pathPrefix", (0, 0), "The path of the URL of this server.", |site, a| {
        site.of_host("pathPrefix", &a)
    }),
];

/// A text as a value, within the bounds of the template.
fn made(site: &Site<'_>, text: Result<String, String>) -> Made {
    site.results.copy(&text?).map(Value::Text)
}

fn number(value: &Value) -> Result<f64, String> {
    match value {
        Value::Float(number) => Ok(*number),
        Value::Int(number) => Ok(*number as f64),
        Value::Text(text) => parse_float(text),
        other => Err(format!("can't convert {} to float", other.type_name())),
    }
}

fn samples(value: &Value) -> Result<&[Value], String> {
    match value {
        Value::List(samples) => Ok(samples),
        other => {
            Err(format!("wrong type for value; expected template.queryResult; got {}", other.type_name()))
        }
    }
}

fn record(value: &Value) -> Result<&Record, String> {
    match value {
        Value::Record(record) => Ok(record),
        other => Err(format!("wrong type for value; expected *template.sample; got {}", other.type_name())),
    }
}

/// The value of a label of a sample.
fn label_of(name: &str, sample: &Value) -> Result<Option<Text>, String> {
    match record(sample)?.get("Labels") {
        Some(Value::Texts(labels)) => Ok(labels.get(name).cloned()),
        _ => Ok(None),
    }
}

fn sort_by_label(site: &Site<'_>, a: Vec<Value>) -> Made {
    let (name, list) = (text_argument(&a[0])?, samples(&a[1])?);
    site.results.take(list.len() * 2 * VALUE_BYTES)?;
    let mut keyed = Vec::with_capacity(list.len());
    for sample in list {
        keyed.push((label_of(name, sample)?, sample.clone()));
    }
    keyed.sort_by(|(left, _), (right, _)| left.cmp(right));
    Ok(Value::List(Arc::new(keyed.into_iter().map(|(_, sample)| sample).collect())))
}

fn args(site: &Site<'_>, a: Vec<Value>) -> Made {
    site.results.take(a.len() * 2 * VALUE_BYTES)?;
    let named = a.into_iter().zip(0..).map(|(value, n)| (Text::constant(format!("arg{n}")), value));
    Ok(Value::Map(Arc::new(named.collect::<BTreeMap<_, _>>())))
}

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for c in text.chars() {
        match inside {
            true => out.push(c),
            false => out.extend(c.to_uppercase()),
        }
        inside = c.is_alphanumeric() || c == '\'' || c == '_';
    }
    out
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '\0' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
