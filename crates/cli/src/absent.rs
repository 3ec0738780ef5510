//! Explains why a query found nothing: a metric, a label, the value of a label or a field that the server
//! does not have, mostly because it is misspelt.
//!
//! The conditions of the query's selectors are compared with the names and values that the server lists for
//! the times that the query reads. Conditions that are true without the label (`app!="web"`) are never the
//! cause. A condition on a parsed field is compared with the fields of the newest lines that reach it.
//!
//! **Bounds.** At most [`REQUESTS_MAX`] requests, which together take at most [`PATIENCE`]. A request that
//! fails ends the search without a message: the query itself was answered.

use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_base::spelling::nearest;
use sandur_logql::{Expr, LogExpr};
use sandur_model::{MatchOp, Matcher};
use sandur_runtime::Env;
use serde::Deserialize;

use super::client::Client;
use super::escape::escaped;
use super::labels::bounds;
use super::moment::Window;
use super::outcome::{Wanted, none_at_once, nothing};

/// The most requests of a search.
const REQUESTS_MAX: usize = 8;
/// The time that a search may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The newest lines whose fields are compared.
const LINES: &str = "1000";
/// The most fields that a message lists.
const FIELDS_SHOWN: usize = 10;
/// The most names that are compared with an unknown one.
const CANDIDATES_MAX: usize = 20_000;

/// A query that found nothing.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    /// The query.
    pub query: &'a str,
    /// Its language.
    pub wanted: Wanted,
    /// The range that it was evaluated for.
    pub window: &'a Window,
    /// Whether it was evaluated at the end of that range only.
    pub is_instant: bool,
}

/// A path and parameters.
type Request = (String, Vec<(&'static str, String)>);

/// Sends a request; `None` if it fails.
type Get<'a> = dyn Fn(Request) -> BoxFuture<'a, Option<Vec<u8>>> + Sync + 'a;

/// Prints a note that a query found nothing: with the cause if it is a name that the server does not have,
/// else with a hint.
pub async fn report(what: &str, (env, client): (&Env, &Client), found: Found<'_>) {
    let (window, wanted) = (found.window, found.wanted);
    let (start, end) = (window.zone.show(window.start), window.zone.show(window.end));
    match (cause(env, client, found).await, found.is_instant) {
        (Some(cause), true) => eprintln!("no {what} at {end}: {cause}"),
        (Some(cause), false) => eprintln!("no {what} from {start} to {end}: {cause}"),
        (None, true) => none_at_once(wanted, window),
        (None, false) => nothing(what, wanted, window),
    }
}

/// The reason, or `None` if everything that the query names exists.
async fn cause(env: &Env, client: &Client, found: Found<'_>) -> Option<String> {
    let get = |(path, pairs): Request| -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move { client.get(&path, &pairs).await.ok() })
    };
    env.timeout(PATIENCE, search(&get, found)).await.flatten()
}

async fn search<'a>(get: &'a Get<'a>, found: Found<'_>) -> Option<String> {
    let (start, end) = times_read(found)?;
    let window = Window { start, end, zone: found.window.zone.clone() };
    match found.wanted {
        Wanted::Logs => {
            let expr = sandur_logql::parse(found.query).ok()?;
            let listing = &mut Listing { get, window, is_metrics: false, left: REQUESTS_MAX };
            in_logs(listing, &expr).await
        }
        Wanted::Metrics => {
            let expr = sandur_promql::parse(found.query).ok()?;
            let listing = &mut Listing { get, window, is_metrics: true, left: REQUESTS_MAX };
            for selector in expr.selectors().into_iter().filter(|selector| !selector.is_label_list) {
                if let Some(cause) = in_metrics(listing, &selector.matchers).await? {
                    return Some(cause);
                }
            }
            None
        }
        Wanted::Paths => None,
    }
}

/// The first and last time that the query reads; `None` if they do not follow from its range.
fn times_read(found: Found<'_>) -> Option<(i64, i64)> {
    let windows = match found.wanted {
        Wanted::Logs => match sandur_logql::parse(found.query).ok()? {
            Expr::Log(_) => Vec::new(),
            Expr::Metric(metric) => {
                metric.range_aggregations().iter().map(|range| (range.range_ns, range.offset_ns)).collect()
            }
        },
        Wanted::Metrics => {
            let options = sandur_promql::Options::default();
            sandur_promql::windows(&sandur_promql::parse(found.query).ok()?, &options)?
        }
        Wanted::Paths => Vec::new(),
    };
    let back = windows.iter().map(|(length, offset)| length.saturating_add(*offset)).max().unwrap_or(0);
    let ahead = windows.iter().map(|(_, offset)| offset.saturating_neg()).max().unwrap_or(0);
    let first = if found.is_instant { found.window.end } else { found.window.start };
    Some((first.saturating_sub(back.max(0)), found.window.end.saturating_add(ahead.max(0))))
}

/// The names and values that the server lists.
struct Listing<'a> {
    get: &'a Get<'a>,
    window: Window,
    is_metrics: bool,
    /// How many requests may still be sent.
    left: usize,
}

#[derive(Deserialize)]
struct Names {
    #[serde(default)]
    data: Vec<String>,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    fields: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    label: String,
}

impl Listing<'_> {
    async fn ask<T: for<'a> Deserialize<'a>>(
        &mut self,
        path: String,
        more: Vec<(&'static str, String)>,
    ) -> Option<T> {
        self.left = self.left.checked_sub(1)?;
        let mut pairs = bounds(&self.window, self.is_metrics).to_vec();
        pairs.extend(more);
        serde_json::from_slice(&(self.get)((path, pairs)).await?).ok()
    }

    /// The names of labels; of a metric's, if one is given.
    async fn labels(&mut self, of: Option<&str>) -> Option<Vec<String>> {
        let path = if self.is_metrics { "/api/v1/labels" } else { "/loki/api/v1/labels" };
        Some(self.ask::<Names>(path.to_owned(), selecting(of)).await?.data)
    }

    /// The values of a label.
    async fn values(&mut self, name: &str, of: Option<&str>) -> Option<Vec<String>> {
        let base = if self.is_metrics { "/api/v1" } else { "/loki/api/v1" };
        let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
        let path = format!("{base}/label/{}/values", name.replace('+', "%20"));
        Some(self.ask::<Names>(path, selecting(of)).await?.data)
    }

    /// The fields of the newest lines of a log query.
    async fn fields(&mut self, of: &LogExpr) -> Option<Vec<String>> {
        let more = vec![("query", of.to_string()), ("line_limit", LINES.to_owned())];
        let found: Fields = self.ask("/loki/api/v1/detected_fields".to_owned(), more).await?;
        Some(found.fields.into_iter().map(|field| field.label).collect())
    }
}

fn selecting(metric: Option<&str>) -> Vec<(&'static str, String)> {
    let quoted = metric.map(sandur_model::escaping::quoted);
    quoted.map(|name| ("match[]", format!("{{__name__={name}}}"))).into_iter().collect()
}

async fn in_logs(listing: &mut Listing<'_>, expr: &Expr) -> Option<String> {
    let names = listing.labels(None).await?;
    if names.is_empty() {
        return None;
    }
    let logs = expr.log_expressions();
    let mut matchers: Vec<&Matcher> = Vec::new();
    for matcher in logs.iter().flat_map(|log| &log.matchers).filter(|matcher| !matcher.matches("")) {
        if !matchers.iter().any(|known| known.name() == matcher.name() && known.value() == matcher.value()) {
            matchers.push(matcher);
        }
    }
    if let Some(unknown) = matchers.iter().find(|matcher| !names.iter().any(|n| n == matcher.name())) {
        return Some(format!("no stream has the label {}", suggest(unknown.name(), &names, '`')));
    }
    for matcher in matchers.iter().filter(|matcher| matcher.op() == MatchOp::Equal) {
        let values = listing.values(matcher.name(), None).await?;
        if !values.iter().any(|value| value == matcher.value()) {
            return Some(format!("no stream has {}", suggest_value(matcher, &values)));
        }
    }
    for (log, unwrapped) in logs_with_unwrap(expr) {
        if let Some(cause) = in_stages(listing, log, unwrapped, &names).await? {
            return Some(cause);
        }
    }
    None
}

/// The log expressions, each with the label that it unwraps.
fn logs_with_unwrap(expr: &Expr) -> Vec<(&LogExpr, Option<&str>)> {
    match expr {
        Expr::Log(log) => vec![(log, None)],
        Expr::Metric(metric) => {
            let ranges = metric.range_aggregations().into_iter();
            ranges.map(|range| (&range.log, range.unwrap.as_ref().map(|u| u.label.as_str()))).collect()
        }
    }
}

/// Looks for a label filter or an `unwrap` whose field no line has.
async fn in_stages(
    listing: &mut Listing<'_>,
    log: &LogExpr,
    unwrapped: Option<&str>,
    labels: &[String],
) -> Option<Option<String>> {
    let filters = log.stages.iter().enumerate();
    let filters =
        filters.filter_map(|(at, stage)| Some((at, needed(&stage.to_string(), stage.filtered_label()?)?)));
    let unwrapped = unwrapped.map(|label| (log.stages.len(), label.to_owned()));
    for (at, name) in filters.chain(unwrapped) {
        if name.starts_with("__") || name == "detected_level" || labels.contains(&name) {
            continue;
        }
        let before = LogExpr { matchers: log.matchers.clone(), stages: log.stages[..at].to_vec() };
        let fields = listing.fields(&before).await?;
        if fields.is_empty() {
            // No line reaches the filter, or lines have no fields: something else is the cause.
            return Some(None);
        }
        if !fields.contains(&name) {
            return Some(Some(format!("no line has the field {}", suggest_field(&name, &fields))));
        }
    }
    Some(None)
}

/// The label of a filter that rejects lines without it. `text` is the filter: `| status>=500`.
fn needed(text: &str, name: String) -> Option<String> {
    let condition = text.strip_prefix("| ")?.strip_prefix(name.as_str())?;
    let accepts_absence = condition.starts_with('!') || condition == "=\"\"" || condition.starts_with("=~");
    (!accepts_absence).then_some(name)
}

async fn in_metrics(listing: &mut Listing<'_>, matchers: &[Matcher]) -> Option<Option<String>> {
    let named = |m: &&Matcher| m.name() == "__name__" && m.op() == MatchOp::Equal;
    let metric = matchers.iter().find(named).map(Matcher::value);
    if let Some(name) = metric {
        let names = listing.values("__name__", None).await?;
        if names.is_empty() {
            return None;
        }
        if !names.iter().any(|known| known == name) {
            return Some(Some(format!("there is no metric {}", suggest(name, &names, '`'))));
        }
    }
    let conditions: Vec<&Matcher> =
        matchers.iter().filter(|m| m.name() != "__name__" && !m.matches("")).collect();
    if conditions.is_empty() {
        return Some(None);
    }
    let series =
        metric.map_or_else(|| "no series".to_owned(), |name| format!("no series of `{}`", escaped(name)));
    let names = listing.labels(metric).await?;
    if let Some(unknown) = conditions.iter().find(|matcher| !names.iter().any(|n| n == matcher.name())) {
        let what = suggest(unknown.name(), &names, '`');
        return Some(Some(format!("{series} has the label {what}")));
    }
    for matcher in conditions.into_iter().filter(|matcher| matcher.op() == MatchOp::Equal) {
        let values = listing.values(matcher.name(), metric).await?;
        if !values.iter().any(|value| value == matcher.value()) {
            return Some(Some(format!("{series} has {}", suggest_value(matcher, &values))));
        }
    }
    Some(None)
}

fn similar<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let known = known.iter().filter(|known| !known.starts_with("__")).take(CANDIDATES_MAX);
    nearest(name, known.map(String::as_str))
}

/// The unknown name, with the nearest known one.
fn suggest(name: &str, known: &[String], quote: char) -> String {
    let shown = escaped(name);
    match similar(name, known) {
        Some(known) => format!("{quote}{shown}{quote}; did you mean {quote}{}{quote}?", escaped(known)),
        None => format!("{quote}{shown}{quote}"),
    }
}

fn suggest_value(matcher: &Matcher, values: &[String]) -> String {
    format!("{}={}", matcher.name(), suggest(matcher.value(), values, '"'))
}

/// The unknown field, with the nearest one, or the one of a nested object that ends with its name.
fn suggest_field(name: &str, fields: &[String]) -> String {
    let lower = name.to_lowercase();
    let nested = fields.iter().find(|field| field.to_lowercase().ends_with(&format!("_{lower}")));
    if let Some(field) = nested {
        return format!("`{}`; did you mean `{}`?", escaped(name), escaped(field));
    }
    if similar(name, fields).is_some() || fields.is_empty() {
        return suggest(name, fields, '`');
    }
    let some: Vec<String> =
        fields.iter().take(FIELDS_SHOWN).map(|field| format!("`{}`", escaped(field))).collect();
    let more = if fields.len() > FIELDS_SHOWN { ", .." } else { "" };
    format!("`{}`; lines have {}{more}", escaped(name), some.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Zone;

    /// A server with one page of names.
    async fn answer((path, pairs): Request) -> Option<Vec<u8>> {
        let of =
            |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone()).unwrap_or_default();
        let body = match path.as_str() {
            "/loki/api/v1/labels" => r#"{"data":["app","env"]}"#.to_owned(),
            "/loki/api/v1/label/app/values" => r#"{"data":["api","web"]}"#.to_owned(),
            "/loki/api/v1/label/env/values" => r#"{"data":["prod"]}"#.to_owned(),
            "/loki/api/v1/detected_fields" => match of("query").contains("nowhere") {
                true => "{}".to_owned(),
                false => r#"{"fields":[{"label":"res_statusCode"},{"label":"responseTime"}]}"#.to_owned(),
            },
            "/api/v1/label/__name__/values" => r#"{"data":["http_requests_total","up"]}"#.to_owned(),
            "/api/v1/labels" => {
                assert_eq!(of("match[]"), r#"{__name__="http_requests_total"}"#);
                r#"{"data":["__name__","code"]}"#.to_owned()
            }
            "/api/v1/label/code/values" => r#"{"data":["200","500"]}"#.to_owned(),
            _ => return None,
        };
        Some(body.into_bytes())
    }

    async fn said(wanted: Wanted, query: &str) -> String {
        let window = Window { start: 0, end: 1, zone: Zone::utc() };
        let found = Found { query, wanted, window: &window, is_instant: false };
        let get = |request: Request| -> BoxFuture<'_, Option<Vec<u8>>> { Box::pin(answer(request)) };
        search(&get, found).await.unwrap_or_default()
    }

    #[tokio::test]
    async fn names_and_values_that_no_stream_has_are_named() {
        for (query, cause) in [
            (r#"{ap="web"}"#, "no stream has the label `ap`; did you mean `app`?"),
            (r#"{App="web"}"#, "no stream has the label `App`; did you mean `app`?"),
            (r#"{host=~".+"}"#, "no stream has the label `host`"),
            (r#"{app="wbe"}"#, r#"no stream has app="wbe"; did you mean "web"?"#),
            (r#"sum(rate({app="web", env="prd"}[5m]))"#, r#"no stream has env="prd"; did you mean "prod"?"#),
            (r#"{app="web", host!="a"}"#, ""),
            (r#"{app=~"wbe"}"#, ""),
            (
                r#"{app="web"} | json | statusCode>=500"#,
                "no line has the field `statusCode`; did you mean `res_statusCode`?",
            ),
            (
                r#"sum(sum_over_time({app="web"} | json | unwrap took [5m]))"#,
                "no line has the field `took`; lines have `res_statusCode`, `responseTime`",
            ),
            (
                r#"sum(sum_over_time({app="web"} | json | unwrap responsetime [5m]))"#,
                "no line has the field `responsetime`; did you mean `responseTime`?",
            ),
            (r#"{app="web"} | json | statusCode!="500" or a="b""#, ""),
            (r#"{app="web"} |= "nowhere" | json | statusCode>=500"#, ""),
            (r#"{app="web"} | env="x" | json | responseTime>10"#, ""),
        ] {
            assert_eq!(said(Wanted::Logs, query).await, cause, "{query}");
        }
    }

    #[tokio::test]
    async fn metrics_labels_and_values_that_no_series_has_are_named() {
        for (query, cause) in [
            (
                "http_request_total",
                "there is no metric `http_request_total`; did you mean `http_requests_total`?",
            ),
            (
                r#"up or rate(http_requests_total{cod="200"}[5m])"#,
                "no series of `http_requests_total` has the label `cod`; did you mean `code`?",
            ),
            (
                r#"http_requests_total{code="201"}"#,
                r#"no series of `http_requests_total` has code="201"; did you mean "200"?"#,
            ),
            (r#"http_requests_total{code="200"} > 1e9"#, ""),
            (r#"http_requests_total{cod!="200"}"#, ""),
            (r#"http_request_total @ 5"#, ""),
        ] {
            assert_eq!(said(Wanted::Metrics, query).await, cause, "{query}");
        }
    }

    #[test]
    fn names_are_compared_at_all_times_that_a_query_reads() {
        let window = Window { start: 100_000_000_000, end: 160_000_000_000, zone: Zone::utc() };
        let read = |wanted, query, is_instant| {
            let (start, end) = times_read(Found { query, wanted, window: &window, is_instant }).unwrap();
            (start / 1_000_000_000, end / 1_000_000_000)
        };
        assert_eq!(read(Wanted::Logs, r#"{a="b"}"#, false), (100, 160));
        assert_eq!(read(Wanted::Logs, r#"rate({a="b"}[1m] offset 30s)"#, false), (10, 160));
        assert_eq!(read(Wanted::Metrics, "rate(up[1m])", true), (100, 160));
        assert_eq!(read(Wanted::Metrics, "rate(up[1m] offset -10s)", false), (50, 170));
    }
}
