//! The rules of `packaging/alerts.yml`, evaluated as Prometheus would over its scrapes of a server.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::{Labels, TenantId};
use sandur_promql::{Options, Request, Times, Value};
use sandur_query::{MemorySeries, QueryContext};
use sandur_runtime::Env;
use saphyr_parser::{Event, Parser};

use super::node::Node;

/// The labels that Prometheus adds to all scraped series.
const TARGET: [(&str, &str); 2] = [("instance", "sandur-1:3100"), ("job", "sandur")];

/// A rule, and its history.
pub struct Alert {
    pub name: String,
    expr: String,
    patience: Duration,
    /// Since when the expression has each of these series, by the monotonic clock.
    active: BTreeMap<String, Duration>,
    /// When it began to fire, and when it stopped.
    pub fired: Vec<(Duration, Option<Duration>)>,
}

/// The rules of the file.
pub fn rules() -> Vec<Alert> {
    let text = include_str!("../../../../../packaging/alerts.yml");
    let mut alerts: Vec<Alert> = Vec::new();
    let mut words = Parser::new_from_str(text).filter_map(|event| match event.unwrap().0 {
        Event::Scalar(text, ..) => Some(text.into_owned()),
        _ => None,
    });
    while let Some(key) = words.next() {
        let mut value = || words.next().unwrap();
        match (key.as_str(), alerts.last_mut()) {
            ("alert", _) => alerts.push(Alert {
                name: value(),
                expr: String::new(),
                patience: Duration::ZERO,
                active: BTreeMap::new(),
                fired: Vec::new(),
            }),
            ("expr", Some(alert)) => alert.expr = value(),
            ("for", Some(alert)) => {
                let ns = sandur_promql::parse_duration(&value()).unwrap();
                alert.patience = Duration::from_nanos(ns as u64);
            }
            _ => {}
        }
    }
    assert!(alerts.iter().all(|alert| !alert.expr.is_empty()), "a rule without an expression");
    alerts
}

/// The labels of a series of a scraped page: its text is a selector that matches only it.
fn labels_of(series: &str) -> Labels {
    let matchers = sandur_promql::parse_selector(series).unwrap();
    let own = matchers.iter().map(|matcher| (matcher.name(), matcher.value()));
    Labels::from_pairs(own.chain(TARGET))
}

/// A Prometheus that scrapes one server and evaluates the rules after each scrape.
pub struct Monitor {
    env: Env,
    series: MemorySeries,
    /// The labels of each scraped series that a rule uses; parsing the others would only take time.
    asked: HashMap<String, Option<Labels>>,
    pub alerts: Vec<Alert>,
}

impl Monitor {
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), series: MemorySeries::default(), asked: HashMap::new(), alerts: rules() }
    }

    /// Scrapes the server, or records that it is down, and evaluates the rules.
    pub async fn look(&mut self, node: Option<&Node>) {
        let page = match node {
            Some(node) => Some(node.metrics().await),
            None => None,
        };
        self.scraped(page.as_deref()).await;
    }

    /// Evaluates the rules after a scrape with this response; `None` if the server did not respond.
    pub async fn scraped(&mut self, page: Option<&str>) {
        let now_ms = self.env.now_ns() / 1_000_000;
        self.add("up", if page.is_some() { 1.0 } else { 0.0 }, now_ms);
        for line in page.unwrap_or_default().lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').unwrap();
            self.add(series, value.parse().unwrap(), now_ms);
        }
        self.evaluate(now_ms).await;
    }

    fn add(&mut self, series: &str, value: f64, now_ms: i64) {
        if !self.asked.contains_key(series) {
            let name = series.split('{').next().unwrap();
            let is_asked = self.alerts.iter().any(|alert| alert.expr.contains(name));
            self.asked.insert(series.to_owned(), is_asked.then(|| labels_of(series)));
        }
        if let Some(labels) = &self.asked[series] {
            self.series.edit(labels, |samples| {
                samples.times.push(now_ms);
                samples.values.push(value);
            });
        }
    }

    async fn evaluate(&mut self, now_ms: i64) {
        let now = self.env.monotonic();
        for alert in &mut self.alerts {
            let budget = MemoryBudget::root("rules", 64 << 20);
            let tenant = TenantId::default_tenant();
            let context = QueryContext::new(self.env.clone(), tenant, budget, Duration::from_secs(60));
            let times = Times { start: now_ms, end: now_ms, step: 0 };
            let request = Request { query: alert.expr.clone(), times, options: Options::default() };
            let answer = sandur_promql::query(&self.series, &context, &request).await;
            let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", alert.name));
            let Value::Vector(found) = &answer.value else { panic!("{}: not a vector", alert.name) };
            let found: Vec<String> = found.iter().map(|(labels, _)| format!("{labels:?}")).collect();
            alert.active.retain(|labels, _| found.contains(labels));
            for labels in found {
                alert.active.entry(labels).or_insert(now);
            }
            let fires = alert.active.values().any(|since| now.saturating_sub(*since) >= alert.patience);
            match (fires, alert.fired.last_mut()) {
                (true, None | Some((_, Some(_)))) => alert.fired.push((now, None)),
                (false, Some((_, end @ None))) => *end = Some(now),
                _ => {}
            }
        }
    }

    /// The names of the alerts that fired.
    pub fn fired(&self) -> Vec<&str> {
        let fired = self.alerts.iter().filter(|alert| !alert.fired.is_empty());
        fired.map(|alert| alert.name.as_str()).collect()
    }
}
