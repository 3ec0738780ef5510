//! `targets`: what is scraped, the metadata of its metrics, and where alerts are sent.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use sandur_model::{Labels, matches_all};
use sandur_rules::{AlertmanagerShown, ReceiverShown, RulesShown};
use sandur_service::Queries;
use serde_json::{Value, json};

use super::queries::refuse;
use super::refused::Refused;
use super::reply::{success, success_json};
use crate::call::Call;
use crate::marshal::json;
use crate::params::Params;
use crate::route::{Access, GET, Group, Handler, Route, parameter};
use crate::scrape_state::{DiscoveryShown, Scraping, TargetShown};

/// The targets and their states.
pub static TARGETS: Route = Route {
    methods: GET,
    paths: &["/api/v1/targets", "/prometheus/api/v1/targets"],
    scope: Access::Admin,
    does: "The targets that this process scrapes, with the results of their last scrapes; empty without \
           `--scrape`.",
    parameters: &[
        parameter("state", "`active`, `dropped` or `any` (default)"),
        parameter("scrapePool", "the name of a scrape configuration; by default all"),
    ],
    answers: "200, `{\"activeTargets\":[..],\"droppedTargets\":[..],\"droppedTargetCounts\":{..},\
              \"discoveries\":[..]}` as `data`. `discoveries` has the state of each name in the DNS, each \
              entry of Kubernetes, and the files of each job: its last error, its last success and \
              its number of targets.",
    handler: |request, app| targets.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn targets(State(scraping): State<Scraping>, params: Params) -> Response {
    let state = params.get("state").unwrap_or("any").to_lowercase();
    let pool = params.get("scrapePool").unwrap_or("");
    let all: Vec<TargetShown> = scraping.targets_of(pool);
    let (dropped, active): (Vec<_>, Vec<_>) = all.into_iter().partition(|target| target.labels.is_none());
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    dropped.iter().for_each(|target| *counts.entry(&target.pool).or_default() += 1);
    let wanted = |word: &str| state == "any" || state == word;
    let shown = |all: &[TargetShown], show: fn(&TargetShown) -> Value, word| -> Vec<Value> {
        all.iter().filter(|_| wanted(word)).map(show).collect()
    };
    let mut discoveries = scraping.get().map(|state| state.discoveries()).unwrap_or_default();
    discoveries.retain(|source| pool.is_empty() || source.pool == pool);
    let data = json!({
        "discoveries": discoveries.iter().map(discovery).collect::<Vec<_>>(),
        "activeTargets": shown(&active, active_target, "active"),
        "droppedTargets": shown(&dropped, dropped_target, "dropped"),
        "droppedTargetCounts": counts,
    });
    success_json(&data.to_string())
}

/// Labels as a JSON object.
pub fn object(labels: &Labels) -> Value {
    labels.iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
}

/// A time as text, in UTC.
fn instant(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(ns)).map(|at| at.to_string()).unwrap_or_default()
}

fn discovery(source: &DiscoveryShown) -> Value {
    json!({
        "scrapePool": source.pool,
        "kind": source.kind,
        "source": source.source,
        "targets": source.targets,
        "lastError": source.last_error,
        "lastSuccess": instant(source.last_success_ns),
        "failures": source.failures,
    })
}

fn active_target(target: &TargetShown) -> Value {
    json!({
        "discoveredLabels": object(&target.discovered),
        "labels": target.labels.as_ref().map(object),
        "scrapePool": target.pool,
        "scrapeUrl": target.url,
        "globalUrl": target.url,
        "lastError": target.last_error,
        "lastScrape": instant(target.last_scrape_ns),
        "lastScrapeDuration": target.last_duration.as_secs_f64(),
        "health": target.health.name(),
        "scrapeInterval": sandur_base::units::format_duration(target.interval),
        "scrapeTimeout": sandur_base::units::format_duration(target.timeout),
    })
}

fn dropped_target(target: &TargetShown) -> Value {
    json!({ "discoveredLabels": object(&target.discovered), "scrapePool": target.pool })
}

/// Metadata of the metrics of targets.
pub static METADATA: Route = Route {
    methods: GET,
    paths: &["/api/v1/targets/metadata", "/prometheus/api/v1/targets/metadata"],
    scope: Access::Admin,
    does: "Metadata of the metrics of targets.",
    parameters: &[
        parameter("match_target", "a selector on the labels of targets; by default all"),
        parameter("metric", "the family; by default all"),
        parameter("limit", "maximum number of targets; by default all"),
    ],
    answers: "200, `[{\"target\":{..},\"metric\",\"type\",\"help\",\"unit\"},..]` as `data`.",
    fails: "400 `bad_data`.",
    handler: |request, app| metadata.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn metadata(
    State(queries): State<Queries>,
    State(scraping): State<Scraping>,
    call: Call,
) -> Result<Response, Refused> {
    let limit = match call.params.get("limit") {
        None => usize::MAX,
        Some(text) => {
            let number: i64 = text.parse().map_err(|_| refuse("limit must be a number"))?;
            usize::try_from(number).unwrap_or(usize::MAX)
        }
    };
    let matchers = match call.params.get("match_target") {
        None => Vec::new(),
        Some(text) => {
            let context = queries.samples_context(&call.caller.tenant, None);
            let text = text.to_owned();
            let parsed = context.compute_here(|| Ok(sandur_promql::parse_selector(&text)?));
            parsed.map_err(|error| Refused::reading(error, str::to_owned))?
        }
    };
    let metric = call.params.get("metric").unwrap_or("");
    let mut rows = Vec::new();
    let targets = scraping.targets_of("").into_iter().filter_map(|target| target.labels);
    for labels in targets.filter(|labels| matches_all(&matchers, labels)).take(limit) {
        let metadata = scraping.get().map(|state| state.metadata_of(&labels)).unwrap_or_default();
        for one in metadata.iter().filter(|one| metric.is_empty() || *one.family == *metric) {
            let mut row = json!({
                "target": object(&labels), "type": one.kind.as_str(), "help": one.help, "unit": one.unit,
            });
            if metric.is_empty() {
                row["metric"] = json!(one.family);
            }
            rows.push(row);
        }
    }
    Ok(success_json(&json!(rows).to_string()))
}

/// Names of scrape configurations.
pub static POOLS: Route = Route {
    methods: GET,
    paths: &["/api/v1/scrape_pools", "/prometheus/api/v1/scrape_pools"],
    scope: Access::Admin,
    does: "Names of scrape configurations.",
    answers: "200, `{\"scrapePools\":[\"node\",..]}` as `data`.",
    handler: |request, app| pools.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn pools(State(scraping): State<Scraping>) -> Response {
    let mut pools = scraping.get().map(|state| state.pools()).unwrap_or_default();
    pools.sort();
    let data = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"{\"scrapePools\":");
        json::strings(out, pools.iter().map(String::as_str));
        out.push(b'}');
    };
    success(data, &[])
}

/// Where alerts are sent.
pub static ALERTMANAGERS: Route = Route {
    methods: GET,
    paths: &["/api/v1/alertmanagers", "/prometheus/api/v1/alertmanagers"],
    scope: Access::Read,
    does: "The Alertmanagers that this process sends alerts to, and the receivers that it tells about groups \
           of alerts.",
    answers: "200, `{\"activeAlertmanagers\":[{\"url\"},..],\"droppedAlertmanagers\":[],\
              \"receivers\":[..]}` as `data`. A receiver has `kind`, `name`, `alerts` (in its groups) and \
              `lastError`.",
    several_tenants: true,
    handler: |request, app| alertmanagers.call(request, app),
    ..Route::of(Group::Metrics)
};

async fn alertmanagers(State(rules): State<RulesShown>, _call: Call) -> Response {
    let shown = |target: AlertmanagerShown| {
        let AlertmanagerShown { url, queued, last_error } = target;
        json!({ "url": url, "queued": queued, "lastError": last_error })
    };
    let active: Vec<Value> = rules.alertmanagers().into_iter().map(shown).collect();
    let shown = |receiver: ReceiverShown| {
        let ReceiverShown { kind, name, alerts, last_error } = receiver;
        json!({ "kind": kind, "name": name, "alerts": alerts, "lastError": last_error })
    };
    let receivers: Vec<Value> = rules.receivers().into_iter().map(shown).collect();
    let data = json!({ "activeAlertmanagers": active, "droppedAlertmanagers": [], "receivers": receivers });
    success_json(&data.to_string())
}
