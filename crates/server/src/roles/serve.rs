//! `sandur serve`: opens the engine, serves HTTP, and shuts down in order.
//!
//! Order of the start: log, store and engine, listener, readiness. Order of the shutdown: readiness is
//! withdrawn, new connections are refused, running requests end, followers close, the own log is stored,
//! the engine flushes.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::registry::Registry;
use sandur_base::units::ByteSize;
use sandur_config::{Settings, TenantLimits};
use sandur_http::auth::Authority;
use sandur_http::{App, AppState, DashboardFolder, ServerMetrics, without_secrets};
use sandur_ingest::{DeltaStreams, SeriesCache};
use sandur_listeners::Connections;
use sandur_listeners::carbon::{self, Carbon, CarbonParts};
use sandur_model::TenantId;
use sandur_query::{FairQueue, Sources};
use sandur_rules::Ownership;
use sandur_runtime::{Env, Shutdown, ShutdownSignal, Task, environment as variables, machine};
use sandur_scrape::ScrapeFile;
use sandur_service::query_log::SlowQueries;
use sandur_service::{
    Intake, LimitsOf, Pressure, Queries, QueryMemory, QueryMetrics, QueryOptions, QueryParts, WriteMetrics,
    WriteParts, Writes,
};
use sandur_terminal::Failed;
use sandur_terminal::Signals;
use sandur_terminal::logging;
use sandur_terminal::logging::self_logs::SelfLogs;

use super::engine::{self, Opened};
use super::listen::{self, Listeners};
use super::other_processes::CalledProcesses;
use super::relay::{self, Relaying};
use super::retention::kept;
use super::rule_owners::EngineOwnership;
use super::rules;
use super::scrape;
use super::self_logs_shipper::Shipper;
use super::work_of_roles::work_of_roles;
use crate::graphite_rules::GraphiteRules;
use crate::memory::{Governed, Shares, govern, tune_allocator};
use crate::open_files::OpenFiles;

/// Maximum bytes of own log lines that are queued; more are dropped.
const SELF_LOGS_QUEUE_BYTES: u64 = 4 << 20;

/// The variable with the milliseconds by which the wall clock is ahead, or behind if it is negative: for
/// tests of several processes. Only builds with debug assertions accept it.
const CLOCK_OFFSET: &str = "SANDUR_TEST_CLOCK_OFFSET_MS";

/// A server that runs in this process.
pub struct Server {
    /// Address of the HTTP listener.
    pub address: SocketAddr,
    /// Addresses of all listeners, that of HTTP first.
    pub listening: Vec<SocketAddr>,
    app: App,
    accepting: Vec<Task<()>>,
    background: Vec<Task<()>>,
    governed: Governed,
    shipper: Option<Shipper>,
    relaying: Option<Relaying>,
    durability: String,
}

/// Runs until a signal. Returns the exit code of the process.
pub async fn serve(settings: Settings) -> Result<ExitCode, Failed> {
    let env = environment(&settings);
    let clock_offset_ms = offset_clock(&env)?;
    let self_logs = settings.self_logs.then(|| SelfLogs::new(env.clone(), SELF_LOGS_QUEUE_BYTES));
    logging::start(&settings.log, env.clone(), self_logs.as_ref()).map_err(Failed::new)?;
    settings.removed.iter().for_each(|key| tracing::warn!("{key} has no effect any more: remove it"));
    if clock_offset_ms != 0 {
        tracing::warn!(clock_offset_ms, "the clock of this process is wrong, as {CLOCK_OFFSET} demands");
    }
    let mut signals = Signals::catch();
    let server = tokio::select! {
        server = Server::start(env.clone(), settings, self_logs) => server?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before it was ready; the next start recovers the WAL");
            // A start that was interrupted needs no cleanup: the state is as after a crash.
            logging::stderr::exit(0);
        }
    };
    let _signals = env.spawn("signals", signals.watch(server.app.shutdown.clone()));
    server.greet();
    server.app.shutdown.signal().triggered().await;
    server.stop().await?;
    match logging::is_json() {
        true => tracing::info!("stopped; all acknowledged data is stored"),
        false => eprintln!("sandur: stopped; all acknowledged data is stored"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The environment, with as many CPU threads as the settings say.
pub fn environment(settings: &Settings) -> Env {
    let threads = match settings.cpu_threads {
        0 => machine::processors(),
        n => n as usize,
    };
    Env::system(threads)
}

/// Makes the wall clock wrong if a test demands it. Returns by how many milliseconds it is ahead.
fn offset_clock(env: &Env) -> Result<i64, Failed> {
    let Some(text) = variables::variable(CLOCK_OFFSET) else { return Ok(0) };
    if !cfg!(debug_assertions) {
        return Err(Failed::new(format!("{CLOCK_OFFSET} is only for test builds: unset it")));
    }
    let wrong = |_| Failed::new(format!("{CLOCK_OFFSET}: '{text}' is no number of milliseconds"));
    let offset_ms: i64 = text.parse().map_err(wrong)?;
    env.set_clock_skew(Duration::from_millis(offset_ms.unsigned_abs()), offset_ms > 0);
    Ok(offset_ms)
}

impl Server {
    /// Opens the store, recovers, and serves. Lines in `self_logs` are stored from then on. The resident
    /// memory of the process is kept below the limit of the server.
    pub async fn start(env: Env, settings: Settings, self_logs: Option<SelfLogs>) -> Result<Self, Failed> {
        let mut server = Self::start_beside(env.clone(), settings, self_logs).await?;
        let governor = govern(env.clone(), server.governed.clone());
        server.background.push(env.spawn("memory governor", governor));
        Ok(server)
    }

    /// Starts a server beside other users of the memory of the process, such as other tests. Nobody watches
    /// the memory: what others use must not make this server refuse pushes.
    pub async fn start_beside(env: Env, settings: Settings, logs: Option<SelfLogs>) -> Result<Self, Failed> {
        let settings = work_of_roles(settings);
        let own_tenant = tenant_of_self_logs(&settings)?;
        let (scraped, ruled) = (scrape::file(&settings)?, rules::configured(&settings)?);
        let graphite = Arc::new(GraphiteRules::open(&settings.graphite).map_err(Failed::new)?);
        let dashboards = dashboards_of(&settings)?;
        let shares = Shares::of(settings.memory_limit).map_err(Failed::new)?;
        tune_allocator(settings.memory_limit);
        // Before the store: an address in use is the most common mistake and the fastest to detect.
        let (metrics, shutdown) = (ServerMetrics::default(), Shutdown::default());
        let authority = authority(&env, &settings).await?;
        // Requests get 503 until the engine is open: recovery may take a while.
        let (limit, pressure, stopping) = (settings.memory_limit, Pressure::default(), shutdown.signal());
        let listening = listen::bind_all(&env, &settings, &shares, &metrics, &stopping).await?;
        let Listeners { listeners, mut accepting, following: certificates } = listening;
        let (bound, address) = (carbon::bind(&settings).await?, listeners[0].address);
        let (limits, following) = limits_of_tenants(&env, &settings).await?;
        let kept = kept(&limits, &settings.graphite, &graphite);
        let opened = engine::open(&env, &settings, &shares, (&limits, kept), address).await?;
        let Opened { engine, store, sources, intake, registry, durability, calls } = opened;
        let queries = queries(&env, &settings, &shares, (sources, &limits, &graphite));
        let writes = writes(&env, &shares, (intake, &limits, &pressure));
        let carbon = carbon_of(&settings, &writes, &stopping);
        let own = metrics.clone().register(registry);
        let mut registry = with_services((&queries, &writes), &carbon, &graphite, own);
        let (rule_metrics, found) = (rules::metrics(&mut registry), scrape::metrics(&mut registry));
        let stored_rules = rules::stored((&env, &settings), store, &queries, &rule_metrics);
        let app = App::new(AppState {
            env: env.clone(),
            dashboards,
            settings: Arc::new(settings),
            queries: queries.clone(),
            writes,
            others: Arc::new(CalledProcesses::new(&engine, calls.as_ref().map(|c| c.caller_for_operators()))),
            groups: Default::default(),
            metrics: metrics.clone(),
            registry,
            ready: Default::default(),
            stopping,
            shutdown,
            ending: Default::default(),
            prepared: Default::default(),
            scraping: Default::default(),
            rules: Default::default(),
            stored_rules,
            carbon: carbon.clone(),
        });
        let peers = calls.as_ref().map(|calls| calls.server(Arc::clone(&engine), &shares, &app));
        listeners.iter().for_each(|listener| listener.open(&app, authority.as_ref(), peers.as_ref()));
        let bodies = app.writes.memory().clone();
        let governed = Governed { limit, pressure, metrics, pool: shares.pool.clone(), bodies, queries };
        let deltas = env.spawn("stale deltas", forget_stale_deltas(app.clone()));
        let relaying = relay::start(&app).await?;
        app.ready.store(true, Ordering::Relaxed);
        let shipper = logs.map(|logs| Shipper::start(&app, logs, own_tenant));
        let mut background =
            vec![following, deltas, env.spawn("rules of Graphite's", graphite.follow(env.clone()))];
        background.extend(scrape::start(&app, scraped, (found, address))?);
        let owners: Arc<dyn Ownership> = Arc::new(EngineOwnership(engine));
        background.extend(rules::start(&app, ruled, (rule_metrics, Some(owners)), address));
        let credentials = authority.map(|authority| env.spawn("credentials", authority.follow()));
        background
            .extend(certificates.into_iter().chain(credentials).chain(calls.map(|calls| calls.follow())));
        let addresses =
            listeners.iter().map(|listener| listener.address).chain(bound.iter().map(|bound| bound.address));
        let listening = addresses.chain(relaying.iter().flat_map(|all| all.listening.clone())).collect();
        let connections = carbon_connections(&app, &shares);
        accepting.extend(carbon::start(&carbon, &connections, bound));
        Ok(Self { address, listening, app, accepting, background, governed, shipper, relaying, durability })
    }

    /// Scrapes for the default tenant until the task is dropped, in addition to the configured targets.
    pub fn scrape(&self, file: ScrapeFile) -> Task<()> {
        scrape::run(&self.app, (file, None), TenantId::default_tenant(), Default::default())
    }

    /// Evaluates the rules in a text until the task is dropped.
    pub fn evaluate(&self, text: &str) -> Result<Option<Task<()>>, Failed> {
        rules::start_text(&self.app, text, self.address)
    }

    /// Reports that the server is ready: as text or, if every line is JSON, as a log line.
    fn greet(&self) {
        if logging::is_json() {
            let (address, store) = (self.address, without_secrets(&self.app.settings.store));
            let memory_limit = self.app.settings.memory_limit;
            let (version, durability) = (env!("CARGO_PKG_VERSION"), &self.durability);
            tracing::info!(version, %address, %store, durability, memory_limit, "sandur is ready");
        } else {
            eprintln!("{}", self.greeting());
        }
    }

    /// The text at the start.
    fn greeting(&self) -> String {
        let settings = &self.app.settings;
        let scheme = if settings.tls.cert_file.is_empty() { "http" } else { "https" };
        let address = format!("{scheme}://{}", self.address);
        format!(
            "sandur {} is ready\n\
             \x20 address     {address}  (APIs of Loki, Prometheus and Graphite; see / for links)\n\
             \x20 store       {}\n\
             \x20 durability  {}\n\
             \x20 memory      at most {} of {} (--memory-limit)\n\
             \x20 stop        Ctrl-C or SIGTERM flushes and exits",
            env!("CARGO_PKG_VERSION"),
            without_secrets(&settings.store),
            self.durability,
            ByteSize(settings.memory_limit),
            ByteSize(machine::memory_bytes()),
        )
    }

    /// Shuts down in order. The error says what could not be flushed.
    pub async fn stop(self) -> Result<(), Failed> {
        let Self { app, accepting, background, shipper, relaying, .. } = self;
        app.ready.store(false, Ordering::Relaxed);
        app.shutdown.trigger();
        for loop_ in accepting {
            if let Err(error) = loop_.join().await {
                tracing::error!(%error, "the accept loop failed");
            }
        }
        wait_for_followers(&app).await;
        if let Some(shipper) = shipper {
            shipper.finish().await;
        }
        if let Some(relaying) = relaying {
            relaying.stop().await;
        }
        drop(background);
        app.writes.intake().shutdown().await.map_err(|failure| {
            let text = failure.message;
            Failed::new(format!(
                "stopped, but not all rows were flushed: {text}. Acknowledged rows are in the WAL and are \
                 flushed at the next start; pushes that were not acknowledged may have to be sent again"
            ))
        })
    }
}

/// The state of Carbon's listeners by the settings.
fn carbon_of(settings: &Settings, writes: &Writes, stopping: &ShutdownSignal) -> Carbon {
    Carbon::new(CarbonParts {
        env: writes.env().clone(),
        options: settings.carbon.clone(),
        drain_timeout: settings.http.drain_timeout,
        writes: writes.clone(),
        stopping: stopping.clone(),
    })
}

fn tenant_of_self_logs(settings: &Settings) -> Result<TenantId, Failed> {
    TenantId::new(&settings.self_logs_tenant)
        .map_err(|error| Failed::new(format!("self_logs_tenant: {error}")))
}

/// The folder of dashboards, which must be there at the start.
pub fn dashboards_of(settings: &Settings) -> Result<DashboardFolder, Failed> {
    let folder = DashboardFolder::new(&settings.dashboards);
    folder.check().map_err(|error| Failed::new(format!("dashboards: {error}")))?;
    Ok(folder)
}

/// The bound on connections of all listeners of Carbon together.
fn carbon_connections(app: &App, shares: &Shares) -> Connections {
    let files = OpenFiles::now(&app.settings).connections_max();
    let most = app.settings.carbon.max_connections.min(shares.connections_max()).min(files);
    Connections::new(app.env.clone(), (most, most), shares.heads_budget(), app.metrics.admission.clone())
}

/// Returns the function by which services get the limits of a tenant.
fn limits_of(limits: &Arc<TenantLimits>) -> LimitsOf {
    let limits = Arc::clone(limits);
    Arc::new(move |tenant| limits.of(tenant))
}

/// The options of queries by the settings.
pub fn query_options(settings: &Settings) -> QueryOptions {
    let query = &settings.query;
    QueryOptions {
        timeout: query.timeout,
        lookback: query.lookback_delta,
        samples_max: query.max_samples,
        keeps_steps: query.cache_results,
        slow_after: query.slow_threshold,
        logs_all: query.log == "all",
        stores_log: settings.self_logs,
    }
}

/// The service of queries by the settings.
fn queries(
    env: &Env,
    settings: &Settings,
    shares: &Shares,
    (sources, limits, graphite): (Sources, &Arc<TenantLimits>, &Arc<GraphiteRules>),
) -> Queries {
    let rules = Arc::clone(graphite);
    Queries::new(QueryParts {
        env: env.clone(),
        options: query_options(settings),
        sources,
        graphite_rules: Arc::new(move || rules.now()),
        limits_of: limits_of(limits),
        turns: query_queue(settings),
        wide_turns: wide_queue(settings, shares),
        steps: shares.results_cache(),
        memory: QueryMemory::new(shares.query.clone()),
        slow: SlowQueries::new(&shares.slow_queries),
        metrics: QueryMetrics::default(),
    })
}

/// The service of writes within its shares of the memory.
fn writes(
    env: &Env,
    shares: &Shares,
    (intake, limits, pressure): (Arc<dyn Intake>, &Arc<TenantLimits>, &Pressure),
) -> Writes {
    Writes::new(WriteParts {
        env: env.clone(),
        intake,
        limits_of: limits_of(limits),
        series: Arc::new(SeriesCache::new(shares.series, env.random_u64())),
        deltas: Arc::new(DeltaStreams::new(shares.deltas.clone())),
        memory: shares.request_memory(env),
        pressure: pressure.clone(),
        metrics: WriteMetrics::default(),
    })
}

/// The registry with the counters of the services, of Graphite's protocols and of its files of rules.
fn with_services(
    (queries, writes): (&Queries, &Writes),
    carbon: &Carbon,
    rules: &GraphiteRules,
    mut registry: Registry,
) -> Registry {
    queries.metrics().register(&mut registry);
    writes.metrics().register(&mut registry);
    carbon.metrics.register(&mut registry);
    rules.register(&mut registry);
    registry
}

/// Releases the memory of series of delta temporality that are no longer sent.
async fn forget_stale_deltas(app: App) {
    const EVERY: Duration = Duration::from_secs(60);
    loop {
        app.env.sleep(EVERY).await;
        app.writes.deltas().forget_stale(app.env.monotonic());
    }
}

/// The limits of all tenants, and the task that follows their file.
async fn limits_of_tenants(env: &Env, settings: &Settings) -> Result<(Arc<TenantLimits>, Task<()>), Failed> {
    let limits = Arc::new(TenantLimits::new(settings));
    limits.load(env).await.map_err(|error| Failed::new(error.to_string()))?;
    let following = env.spawn("limits of tenants", Arc::clone(&limits).follow(env.clone()));
    Ok((limits, following))
}

/// The credentials, if a file is configured.
pub(super) async fn authority(env: &Env, settings: &Settings) -> Result<Option<Arc<Authority>>, Failed> {
    match settings.auth.file.as_str() {
        "" => Ok(None),
        path => {
            let authority = Authority::open(env.clone(), path).await;
            authority.map(|a| Some(Arc::new(a))).map_err(|error| Failed::new(error.to_string()))
        }
    }
}

/// Websockets do not count as requests; they close when they see the shutdown.
async fn wait_for_followers(app: &App) {
    const STEP: Duration = Duration::from_millis(20);
    for _ in 0..100 {
        if app.queries.followers().total() == 0 {
            return;
        }
        app.env.sleep(STEP).await;
    }
}

fn query_queue(settings: &Settings) -> FairQueue {
    let running = match settings.query.max_concurrent {
        0 => (machine::processors() * 2).max(4),
        n => n as usize,
    };
    FairQueue::new(running, settings.query.max_queued as usize)
}

/// The queue of evaluations of many steps: as many at a time as their memory suffices for, at most one per
/// processor, because one of them uses all processors most of the time.
fn wide_queue(settings: &Settings, shares: &Shares) -> FairQueue {
    const BYTES: u64 = 64 << 20;
    let running = (shares.query.limit() / BYTES).clamp(1, machine::processors() as u64);
    FairQueue::new(running as usize, settings.query.max_queued as usize)
}
