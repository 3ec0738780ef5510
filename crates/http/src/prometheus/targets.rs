//! `targets`: the scrape targets and their state.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use sandur_model::Labels;
use serde_json::{Value, json};

use super::reply::success_json;
use crate::params::Params;
use crate::route::{Access, GET, Group, Route, parameter};
use crate::scrape_state::{Scraping, TargetShown};

/// The row of this endpoint in the table of routes.
pub static ROUTE: Route = Route {
    methods: GET,
    paths: &["/api/v1/targets", "/prometheus/api/v1/targets"],
    group: Group::Metrics,
    scope: Access::Admin,
    does: "The targets that this process scrapes, with the results of their last scrapes; empty without \
           `--scrape`.",
    parameters: &[
        parameter("state", "`active`, `dropped` or `any` (default)"),
        parameter("scrapePool", "the name of a scrape configuration; by default all"),
    ],
    answers: "200, `{\"activeTargets\":[..],\"droppedTargets\":[..],\"droppedTargetCounts\":{..}}` as \
              `data`.",
    fails: "",
    several_tenants: false,
    handler: |verbs| on(verbs, targets),
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
    let data = json!({
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

fn active_target(target: &TargetShown) -> Value {
    let at = jiff::Timestamp::from_nanosecond(i128::from(target.last_scrape_ns));
    json!({
        "discoveredLabels": object(&target.discovered),
        "labels": target.labels.as_ref().map(object),
        "scrapePool": target.pool,
        "scrapeUrl": target.url,
        "globalUrl": target.url,
        "lastError": target.last_error,
        "lastScrape": at.map(|at| at.to_string()).unwrap_or_default(),
        "lastScrapeDuration": target.last_duration.as_secs_f64(),
        "health": target.health.name(),
        "scrapeInterval": sandur_base::units::format_duration(target.interval),
        "scrapeTimeout": sandur_base::units::format_duration(target.timeout),
    })
}

fn dropped_target(target: &TargetShown) -> Value {
    json!({ "discoveredLabels": object(&target.discovered), "scrapePool": target.pool })
}
