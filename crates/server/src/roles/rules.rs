//! Rules in this process: configuration from the options.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use sandur_config::Settings;
use sandur_http::App;
use sandur_memory::MemoryBudget;
use sandur_model::{Role, TenantId};
use sandur_rules::file::{ReadOptions, read};
use sandur_rules::stored::{StoredParts, StoredRules};
use sandur_rules::{
    Common, ConfirmedPost, EVALUATIONS_MAX, External, GroupSpec, Most, Notifier, NotifierParts, Ownership,
    Parts, Post, RuleMetrics, Ruler, Rulers, Served, SharedOwnership, Source, Tolerance,
};
use sandur_runtime::{Env, Task};
use sandur_service::Queries;
use sandur_store::Store;
use sandur_terminal::Failed;
use tokio::sync::Semaphore;

use super::notifications::Destinations;

/// The checked configuration of rules.
pub struct Configured {
    /// The tenant of rules of files.
    tenant: TenantId,
    /// Whether rules that were stored through the API are evaluated.
    has_stored: bool,
    built_in: Vec<GroupSpec>,
    /// The files and folders.
    pub sources: Vec<Source>,
    labels: Vec<(String, String)>,
    destinations: Destinations,
}

/// Checks the options; `None` if this process evaluates no rules.
pub fn configured(settings: &Settings) -> Result<Option<Configured>, Failed> {
    let of = &settings.ruler;
    if !settings.cluster.roles.has(Role::Rules) {
        return Ok(None);
    }
    let tenant = TenantId::new(&of.tenant).map_err(|error| Failed::new(format!("ruler.tenant: {error}")))?;
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(Failed::new(format!("ruler.external_labels: '{text}' is not NAME=VALUE"))),
    };
    let labels = of.external_labels.iter().map(pair).collect::<Result<_, _>>()?;
    let sources = settings.rules.iter().map(|text| Source::parse(text)).collect();
    let destinations = Destinations::of(settings)?;
    let has_stored = true;
    let built_in = if settings.self_rules { about_this_server(settings)? } else { Vec::new() };
    Ok(Some(Configured { tenant, has_stored, built_in, sources, labels, destinations }))
}

/// The rules about this server, which read its own metrics.
fn about_this_server(settings: &Settings) -> Result<Vec<GroupSpec>, Failed> {
    if settings.ruler.tenant != settings.scrape_tenant {
        return Err(Failed::new(
            "self_rules: ruler.tenant and scrape_tenant are different, so that the rules would not see the \
             metrics; set both to the same tenant",
        ));
    }
    let interval = settings.ruler.evaluation_interval;
    let mut groups = built_in("sandur.yml", include_str!("../../../../packaging/alerts.yml"), interval)?;
    let recorded = include_str!("../../../../packaging/recording.yml");
    groups.extend(built_in("sandur.yml", recorded, interval)?);
    Ok(groups)
}

fn built_in(name: &str, text: &str, interval: Duration) -> Result<Vec<GroupSpec>, Failed> {
    let options = ReadOptions { interval, ..ReadOptions::default() };
    read(text, &name.into(), options).map_err(|error| Failed::new(error.to_string()))
}

/// Starts the evaluation of the rules in a text, without Alertmanagers.
pub fn start_text(app: &App, text: &str, address: SocketAddr) -> Result<Option<Task<()>>, Failed> {
    let configured = Configured {
        tenant: TenantId::default_tenant(),
        has_stored: false,
        built_in: built_in("demo.yml", text, ReadOptions::default().interval)?,
        sources: Vec::new(),
        labels: Vec::new(),
        destinations: Destinations::none()?,
    };
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
    let Configured { tenant, has_stored, built_in, sources, labels, destinations } = configured;
    let (env, of) = (app.env.clone(), &app.settings.ruler);
    let url = match of.external_url.as_str() {
        "" => format!("http://{address}"),
        url => url.trim_end_matches('/').to_owned(),
    };
    let external = Arc::new(External { labels, url });
    let Destinations { alertmanagers, alerting, receivers, grouping, clients } = destinations;
    let post: Arc<dyn Post> = Arc::new(clients.post(env.clone()));
    let post: Arc<dyn Post> = match &ownership {
        Some(ownership) => {
            let (ownership, env) = (Arc::clone(ownership), env.clone());
            Arc::new(ConfirmedPost { post, ownership, env })
        }
        None => post,
    };
    let ownership = ownership.map(|record| SharedOwnership::new(record, metrics.clone()));
    let notifier = Notifier::new(NotifierParts {
        env: env.clone(),
        alertmanagers: alertmanagers.clone(),
        receivers,
        grouping,
        external: Arc::clone(&external),
        silences: Some(Arc::new(app.stored_rules.clone())),
        post,
        metrics: metrics.clone(),
    });
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
            are_stored: false,
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
