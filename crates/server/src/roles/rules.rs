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
use sandur_memory::MemoryBudget;
use sandur_model::{Role, TenantId};
use sandur_rules::file::{ReadOptions, read};
use sandur_rules::stored::{StoredParts, StoredRules};
use sandur_rules::{
    AlertingFile, Common, ConfirmedPost, EVALUATIONS_MAX, External, GroupSpec, Most, Notifier, Ownership,
    Parts, Post, RuleMetrics, Ruler, Rulers, Served, SharedOwnership, Source, Tolerance,
};
use sandur_runtime::{Env, Task};
use sandur_service::Queries;
use sandur_store::Store;
use sandur_terminal::Failed;
use tokio::sync::Semaphore;

/// Maximum size of a token file.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// Header by which an Alertmanager with several tenants chooses one.
const TENANT: &str = "X-Scope-OrgID";
/// Maximum size of an answer of an Alertmanager that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The checked configuration of rules.
pub struct Configured {
    /// The tenant of rules of files.
    tenant: TenantId,
    /// Whether rules that were stored through the API are evaluated.
    has_stored: bool,
    built_in: Vec<GroupSpec>,
    /// The files and folders.
    pub sources: Vec<Source>,
    alertmanagers: Vec<String>,
    alerting: Option<AlertingFile>,
    labels: Vec<(String, String)>,
    client: reqwest::Client,
}

/// Checks the options; `None` if this process evaluates no rules.
pub fn configured(settings: &Settings) -> Result<Option<Configured>, Failed> {
    let of = &settings.ruler;
    if !settings.cluster.roles.has(Role::Rules) {
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
    let has_stored = true;
    let alerting = match of.alerting_config_file.as_str() {
        "" => None,
        path => Some(AlertingFile::open(path.into()).map_err(Failed::new)?),
    };
    Ok(Some(Configured { tenant, has_stored, built_in, sources, alertmanagers, alerting, labels, client }))
}

/// Starts the evaluation of the rules in a text, without Alertmanagers.
pub fn start_text(app: &App, text: &str, address: SocketAddr) -> Result<Option<Task<()>>, Failed> {
    let name = "demo.yml".into();
    let built_in =
        read(text, &name, ReadOptions::default()).map_err(|error| Failed::new(error.to_string()))?;
    let (sources, alertmanagers, labels) = (Vec::new(), Vec::new(), Vec::new());
    let (tenant, client) = (TenantId::default_tenant(), Client::of_targets(None, false)?);
    let (has_stored, alerting) = (false, None);
    let configured =
        Configured { tenant, has_stored, built_in, sources, alertmanagers, alerting, labels, client };
    Ok(start(app, Some(configured), (RuleMetrics::default(), None), address).pop())
}

/// Rules of the store, as this process knows them.
pub fn stored(
    (env, settings): (&Env, &Settings),
    store: Store,
    queries: &Queries,
    metrics: &RuleMetrics,
) -> StoredRules {
    let all = queries.memory();
    StoredRules::new(StoredParts {
        env: env.clone(),
        store,
        // A quarter: what rules keep is there all the time, and queries need the rest.
        memory: all.child("state of rules", all.limit() / 4),
        metrics: metrics.clone(),
        interval: settings.ruler.evaluation_interval,
    })
}

/// The counters of rules, in the registry.
pub fn metrics(registry: &mut Registry) -> RuleMetrics {
    let metrics = RuleMetrics::default();
    metrics.register(registry);
    metrics
}

/// Starts the evaluation of rules, those of files and those that are stored: of all groups, or of those of
/// which this process is the owner.
pub fn start(
    app: &App,
    configured: Option<Configured>,
    (metrics, ownership): (RuleMetrics, Option<Arc<dyn Ownership>>),
    address: SocketAddr,
) -> Vec<Task<()>> {
    let Some(configured) = configured else { return Vec::new() };
    let Configured { tenant, has_stored, built_in, sources, alertmanagers, alerting, labels, client } =
        configured;
    let (env, of) = (app.env.clone(), &app.settings.ruler);
    let url = match of.external_url.as_str() {
        "" => format!("http://{address}"),
        url => url.trim_end_matches('/').to_owned(),
    };
    let external = Arc::new(External { labels, url });
    let token_file = of.alertmanager_token_file.clone();
    let post: Arc<dyn Post> = Arc::new(Http { env: env.clone(), client, token_file });
    let post: Arc<dyn Post> = match &ownership {
        Some(ownership) => {
            let (ownership, env) = (Arc::clone(ownership), env.clone());
            Arc::new(ConfirmedPost { post, ownership, env })
        }
        None => post,
    };
    let ownership = ownership.map(|record| SharedOwnership::new(record, metrics.clone()));
    let notifier = Notifier::new(&env, &alertmanagers, Arc::clone(&external), post, metrics.clone());
    app.rules.set_notifier(notifier.clone());
    let turns = Arc::new(Semaphore::new(EVALUATIONS_MAX));
    let of_files = (tenant.clone(), memory_of(app, &tenant));
    let shared = Shared { app: app.clone(), external, notifier, metrics, turns, ownership, of_files };
    let mut tasks = Vec::new();
    if let Some(file) = alerting {
        let following = shared.notifier.clone().follow(file, alertmanagers, app.stopping.clone());
        tasks.push(env.spawn("Alertmanagers", following));
    }
    if has_stored {
        let (stored, stopping) = (app.stored_rules.clone(), app.stopping.clone());
        tasks.push(env.spawn("stored rules", stored.clone().follow(of.poll_interval, stopping)));
        let shared = shared.clone();
        let make = Box::new(move |tenant| shared.ruler_of_stored(tenant));
        let rulers = Rulers { env: env.clone(), stored, make };
        tasks.push(env.spawn("rules of tenants", rulers.run(app.stopping.clone())));
    }
    if !sources.is_empty() || !built_in.is_empty() {
        let ruler = Ruler { built_in, sources, ..shared.ruler(tenant) };
        tasks.push(env.spawn("rules", ruler.run(app.stopping.clone())));
    }
    tasks
}

/// What the rulers of all tenants have in common.
#[derive(Clone)]
struct Shared {
    app: App,
    external: Arc<External>,
    notifier: Notifier,
    metrics: RuleMetrics,
    turns: Arc<Semaphore>,
    /// The record of the owners of groups; `None`: this process evaluates all.
    ownership: Option<SharedOwnership>,
    /// The tenant of rules of files, and the memory of its states. It may have stored rules as well.
    of_files: (TenantId, MemoryBudget),
}

/// Memory of the states of a tenant's rules.
fn memory_of(app: &App, tenant: &TenantId) -> MemoryBudget {
    let name = format!("state of rules of tenant {tenant} (ruler_max_state_memory)");
    app.stored_rules.memory().child(name, app.queries.limits(tenant).ruler_max_state_memory)
}

impl Shared {
    /// A ruler without rules.
    fn ruler(&self, tenant: TenantId) -> Ruler {
        let Self { app, metrics, .. } = self;
        let of = &app.settings.ruler;
        let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let (queries, limited) = (app.queries.clone(), tenant.clone());
        let memory = match &self.of_files {
            (of_files, memory) if *of_files == tenant => memory.clone(),
            _ => memory_of(app, &tenant),
        };
        let common = Common {
            data: Arc::new(Served::new(app.queries.clone(), app.writes.clone(), tenant.clone())),
            external: Arc::clone(&self.external),
            series_max: count(of.max_series),
            timeout: of.evaluation_timeout,
            tolerance: Tolerance { outage: of.for_outage_tolerance, grace: of.for_grace_period },
        };
        let parts = Parts {
            env: app.env.clone(),
            tenant: tenant.clone(),
            common,
            notifier: self.notifier.clone(),
            resend_delay: of.resend_delay,
            memory,
            metrics: metrics.clone(),
            turns: Arc::clone(&self.turns),
        };
        Ruler {
            parts,
            built_in: Vec::new(),
            sources: Vec::new(),
            stored: None,
            is_new: false,
            state_memory_max: Box::new(move || queries.limits(&limited).ruler_max_state_memory),
            interval: of.evaluation_interval,
            most: Most { groups: count(of.max_groups), rules: count(of.max_rules) },
            shown: app.rules.part(tenant, metrics.clone()),
            ownership: self.ownership.as_ref().map(SharedOwnership::part),
        }
    }

    fn ruler_of_stored(&self, tenant: TenantId) -> Ruler {
        Ruler { stored: Some(self.app.stored_rules.clone()), ..self.ruler(tenant) }
    }
}

/// Posts alerts.
struct Http {
    env: Env,
    client: reqwest::Client,
    token_file: String,
}

impl Http {
    async fn send(
        &self,
        url: &str,
        tenant: &TenantId,
        body: Bytes,
        timeout: Duration,
    ) -> Result<u16, String> {
        let mut request = self.client.post(url).timeout(timeout).body(body);
        request = request.header(header::CONTENT_TYPE, "application/json").header(TENANT, tenant.as_str());
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
        tenant: &'a TenantId,
        body: Bytes,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<u16, String>> {
        Box::pin(self.send(url, tenant, body, timeout))
    }
}
