//! Rules in this process: configuration from the options, and the HTTP client for Alertmanagers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::registry::Registry;
use reqwest::header;
use sandur_base::{BoxFuture, small_file};
use sandur_cli::client::Client;
use sandur_config::Settings;
use sandur_http::App;
use sandur_model::TenantId;
use sandur_rules::file::{ReadOptions, read};
use sandur_rules::{
    Common, EVALUATIONS_MAX, External, GroupSpec, Most, Notifier, Parts, Post, RuleMetrics, Ruler, Served,
    Source, Tolerance,
};
use sandur_runtime::{Env, Task};
use sandur_terminal::Failed;
use tokio::sync::Semaphore;

/// Maximum size of a token file.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// Maximum size of an answer of an Alertmanager that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The checked configuration of rules.
pub struct Configured {
    tenant: TenantId,
    built_in: Vec<GroupSpec>,
    sources: Vec<Source>,
    alertmanagers: Vec<String>,
    labels: Vec<(String, String)>,
    client: reqwest::Client,
}

/// Checks the options; `None` if no rules are configured.
pub fn configured(settings: &Settings) -> Result<Option<Configured>, Failed> {
    let of = &settings.ruler;
    if settings.rules.is_empty() {
        return Ok(None);
    }
    let tenant = TenantId::new(&of.tenant).map_err(|error| Failed::new(format!("ruler.tenant: {error}")))?;
    for url in &settings.alertmanager_url {
        let parsed = reqwest::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if parsed.is_none() {
            return Err(Failed::new(format!(
                "alertmanager_url: '{url}' is not a URL such as http://HOST:9093"
            )));
        }
    }
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failed::new(format!("ruler.external_labels: '{text}' is not NAME=VALUE"))),
    };
    let labels = of.external_labels.iter().map(pair).collect::<Result<_, _>>()?;
    let authority = (!of.alertmanager_ca_file.is_empty()).then(|| of.alertmanager_ca_file.clone().into());
    let client = Client::of_targets(authority, false)?;
    let sources = settings.rules.iter().map(|text| Source::parse(text)).collect();
    let alertmanagers = settings.alertmanager_url.clone();
    let built_in = Vec::new();
    Ok(Some(Configured { tenant, built_in, sources, alertmanagers, labels, client }))
}

/// Starts the evaluation of the rules in a text, without Alertmanagers.
pub fn start_text(app: &App, text: &str, address: SocketAddr) -> Result<Option<Task<()>>, Failed> {
    let name = "demo.yml".into();
    let built_in =
        read(text, &name, ReadOptions::default()).map_err(|error| Failed::new(error.to_string()))?;
    let (sources, alertmanagers, labels) = (Vec::new(), Vec::new(), Vec::new());
    let (tenant, client) = (TenantId::default_tenant(), Client::of_targets(None, false)?);
    let configured = Configured { tenant, built_in, sources, alertmanagers, labels, client };
    Ok(start(app, Some(configured), RuleMetrics::default(), address))
}

/// The counters of rules, in the registry.
pub fn metrics(registry: &mut Registry) -> RuleMetrics {
    let metrics = RuleMetrics::default();
    metrics.register(registry);
    metrics
}

/// Starts the evaluation of rules.
pub fn start(
    app: &App,
    configured: Option<Configured>,
    metrics: RuleMetrics,
    address: SocketAddr,
) -> Option<Task<()>> {
    let Configured { tenant, built_in, sources, alertmanagers, labels, client } = configured?;
    let (env, of) = (app.env.clone(), &app.settings.ruler);
    let url = match of.external_url.as_str() {
        "" => format!("http://{address}"),
        url => url.trim_end_matches('/').to_owned(),
    };
    let external = Arc::new(External { labels, url });
    let token_file = of.alertmanager_token_file.clone();
    let post: Arc<dyn Post> = Arc::new(Http { env: env.clone(), client, token_file });
    let notifier = Notifier::new(&env, &alertmanagers, Arc::clone(&external), post, metrics.clone());
    app.rules.set_tenant(tenant.clone(), notifier.clone());
    let common = Common {
        data: Arc::new(Served::new(app.queries.clone(), app.writes.clone(), tenant)),
        external,
        series_max: usize::try_from(of.max_series).unwrap_or(usize::MAX),
        timeout: of.evaluation_timeout,
        tolerance: Tolerance { outage: of.for_outage_tolerance, grace: of.for_grace_period },
    };
    let queries = app.queries.memory();
    let parts = Parts {
        env: env.clone(),
        common,
        notifier,
        resend_delay: of.resend_delay,
        // A quarter: what rules keep is there all the time, and queries need the rest.
        memory: queries.child("state of rules", queries.limit() / 4),
        metrics,
        turns: Arc::new(Semaphore::new(EVALUATIONS_MAX)),
    };
    let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let ruler = Ruler {
        parts,
        built_in,
        sources,
        interval: of.evaluation_interval,
        most: Most { groups: count(of.max_groups), rules: count(of.max_rules) },
        shown: app.rules.clone(),
    };
    Some(env.spawn("rules", ruler.run(app.stopping.clone())))
}

/// Posts alerts.
struct Http {
    env: Env,
    client: reqwest::Client,
    token_file: String,
}

impl Http {
    async fn send(&self, url: &str, body: Bytes, timeout: Duration) -> Result<u16, String> {
        let mut request = self.client.post(url).timeout(timeout).body(body);
        request = request.header(header::CONTENT_TYPE, "application/json");
        if !self.token_file.is_empty() {
            let path = self.token_file.clone();
            let read = self.env.run_blocking(move || small_file::read_text(path, TOKEN_BYTES_MAX)).await;
            let token = read.map_err(|error| format!("cannot read {}: {error}", self.token_file))?;
            request = request.bearer_auth(token.trim());
        }
        let mut response = request.send().await.map_err(|error| super::scrape::reason(&error))?;
        let status = response.status().as_u16();
        // The connection can be used again after the body is read.
        let mut bytes = 0;
        while let Ok(Some(piece)) = response.chunk().await {
            bytes += piece.len();
            if bytes > ANSWER_BYTES_MAX {
                break;
            }
        }
        Ok(status)
    }
}

impl Post for Http {
    fn post<'a>(
        &'a self,
        url: &'a str,
        body: Bytes,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<u16, String>> {
        Box::pin(self.send(url, body, timeout))
    }
}
