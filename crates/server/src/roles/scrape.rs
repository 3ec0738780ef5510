//! Scraping in this process: configuration from the options, the HTTP client for targets, and storing of
//! samples.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::registry::Registry;
use reqwest::header;
use sandur_base::{BoxFuture, small_file};
use sandur_cli::client::Client;
use sandur_config::Settings;
use sandur_http::scrape_state::{DiscoveryShown, ScrapeState, TargetHealth, TargetShown};
use sandur_http::{App, metrics_page};
use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::{Labels, SampleBatch, TenantId};
use sandur_runtime::{Env, Task};
use sandur_scrape::{
    Auth, Board, DiscoveryMetrics, DiscoveryStatus, Fetch, FetchRequest, Fetched, Health, JobConfig,
    ScrapeFile, Scraper, Sink, TargetGroup, TargetStatus, Tls, short_of,
};
use sandur_service::Writes;
use sandur_terminal::Failed;

use crate::node_identity::own_address;

/// The job of `self_rules`.
const OWN_JOB: &str = "sandur";
/// Maximum size of a configuration file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The configured targets; `None` if there are none.
pub fn file(settings: &Settings) -> Result<Option<(ScrapeFile, TenantId)>, Failed> {
    if settings.scrape.is_empty() && settings.scrape_config.is_empty() && !settings.self_rules {
        return Ok(None);
    }
    let tenant = TenantId::new(&settings.scrape_tenant)
        .map_err(|error| Failed::new(format!("scrape_tenant: {error}")))?;
    let mut scraped = ScrapeFile::of_targets(&settings.scrape, settings.scrape_interval)
        .map_err(|error| Failed::new(format!("scrape: {error}")))?;
    let path = &settings.scrape_config;
    if !path.is_empty() {
        let unreadable = |error: std::io::Error| Failed::new(format!("cannot read {path}: {error}"));
        let text = small_file::read_text(path, FILE_BYTES_MAX).map_err(unreadable)?;
        let mut file = ScrapeFile::parse(&text).map_err(|error| Failed::new(format!("{path}: {error}")))?;
        for warning in &file.warnings {
            tracing::warn!(path, "{warning}");
        }
        let others: Vec<String> = scraped.jobs.iter().map(|job| job.name.clone()).collect();
        let is_taken = |name: &String| others.contains(name) || (settings.self_rules && name == OWN_JOB);
        if let Some(name) = file.jobs.iter().map(|job| &job.name).find(|name| is_taken(name)) {
            let by = if others.contains(name) { "scrape" } else { "self_rules" };
            return Err(Failed::new(format!(
                "{path}: the job_name '{name}' is the one of the option {by}; give the job another name"
            )));
        }
        scraped.jobs.append(&mut file.jobs);
        scraped.warnings.append(&mut file.warnings);
    }
    Ok(Some((scraped, tenant)))
}

/// The counters of discovery, registered.
pub fn metrics(registry: &mut Registry) -> DiscoveryMetrics {
    let metrics = DiscoveryMetrics::default();
    metrics.register(registry);
    metrics
}

/// Starts scraping the configured targets and, with `self_rules`, this process, which listens on `bound`.
pub fn start(
    app: &App,
    scraped: Option<(ScrapeFile, TenantId)>,
    (metrics, bound): (DiscoveryMetrics, SocketAddr),
) -> Result<Option<Task<()>>, Failed> {
    let Some((mut file, tenant)) = scraped else { return Ok(None) };
    let (own, _) = own_address(&app.settings, bound)?;
    let itself = app.settings.self_rules.then_some(own);
    if let Some(own) = &itself {
        let itself = TargetGroup { targets: vec![own.clone()], ..TargetGroup::default() };
        // The timeout has no effect: there is no request.
        let interval = app.settings.scrape_interval;
        let job = JobConfig::new(OWN_JOB.to_owned(), interval, interval);
        file.jobs.push(JobConfig { groups: vec![itself], ..job });
    }
    Ok(Some(run(app, (file, itself), tenant, metrics)))
}

/// Starts scraping for a tenant. `own` is the address of this process, if it is a target.
pub fn run(
    app: &App,
    (file, own): (ScrapeFile, Option<String>),
    tenant: TenantId,
    metrics: DiscoveryMetrics,
) -> Task<()> {
    let budget = app.writes.memory().budget();
    let board = Arc::new(Board::default());
    let scraper = Scraper {
        env: app.env.clone(),
        tenant,
        fetch: Arc::new(Http {
            env: app.env.clone(),
            clients: Mutex::default(),
            own: own.map(|own| (format!("http://{own}/metrics"), app.clone())),
        }),
        sink: Arc::new(Own(app.writes.clone())),
        board: Arc::clone(&board),
        // Half, so that the other half is left for pushes.
        memory: budget.child("scrapes", budget.limit() / 2),
        metrics,
    };
    // It is set once: a process scrapes either the configured targets or those of the demo.
    app.scraping.set(Arc::new(Shown(board)));
    app.env.spawn("scrapes", scraper.run(file, app.stopping.clone()))
}

/// The state of targets as the trait of the endpoints.
struct Shown(Arc<Board>);

impl ScrapeState for Shown {
    fn targets(&self) -> Vec<TargetShown> {
        let active = self.0.active().into_iter().map(shown);
        let dropped = self.0.dropped().into_iter().map(|(pool, discovered)| TargetShown {
            labels: None,
            ..shown(TargetStatus { job: pool, discovered, ..TargetStatus::default() })
        });
        active.chain(dropped).collect()
    }

    fn pools(&self) -> Vec<String> {
        self.0.jobs()
    }

    fn discoveries(&self) -> Vec<DiscoveryShown> {
        let shown = |status: DiscoveryStatus| DiscoveryShown {
            pool: status.job,
            kind: status.kind,
            source: status.source,
            targets: status.targets,
            last_error: status.last_error,
            last_success_ns: status.last_success_ns,
            failures: status.failures,
        };
        self.0.discoveries().into_iter().map(shown).collect()
    }
}

fn shown(status: TargetStatus) -> TargetShown {
    let labels = |labels: BTreeMap<String, String>| Labels::from_pairs(labels);
    TargetShown {
        discovered: labels(status.discovered),
        labels: Some(labels(status.labels)),
        pool: status.job,
        url: status.url,
        last_error: status.last_error,
        last_scrape_ns: status.last_scrape_ns,
        last_duration: status.last_duration,
        health: match status.health {
            Health::Unknown => TargetHealth::Unknown,
            Health::Up => TargetHealth::Up,
            Health::Down => TargetHealth::Down,
        },
        interval: status.interval,
        timeout: status.timeout,
    }
}

/// Stores scraped samples like a push, under the limits of their tenant.
struct Own(Writes);

impl Sink for Own {
    fn store(&self, batch: SampleBatch) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.0.store_made(batch).await.map(drop).map_err(|failure| failure.message) })
    }
}

/// Fetches pages of targets.
struct Http {
    env: Env,
    clients: Mutex<HashMap<Tls, reqwest::Client>>,
    /// The URL of this process, which needs no request: it may demand credentials or TLS.
    own: Option<(String, App)>,
}

impl Http {
    fn client(&self, tls: &Tls) -> Result<reqwest::Client, String> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(tls) {
            return Ok(client.clone());
        }
        let client = Client::of_targets(tls.ca_file.clone(), tls.insecure)
            .map_err(|failed| failed.message().to_owned())?;
        clients.insert(tls.clone(), client.clone());
        Ok(client)
    }

    async fn get(&self, request: FetchRequest<'_>) -> Result<Fetched, String> {
        let asked = self.client(request.tls)?.get(request.url).header(header::ACCEPT, request.accept);
        let timeout = request.timeout.as_secs_f64().to_string();
        let asked = asked.header("X-Prometheus-Scrape-Timeout-Seconds", timeout);
        let asked = match self.credentials(request.auth).await? {
            Credentials::None => asked,
            Credentials::Basic(user, password) => asked.basic_auth(user, Some(password)),
            Credentials::Token(token) => asked.header(header::AUTHORIZATION, token),
        };
        let mut response = asked.send().await.map_err(|error| reason(&error))?;
        if !response.status().is_success() {
            return Err(format!("server returned HTTP status {}", response.status()));
        }
        let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let (mut body, mut memory) = (Vec::new(), reserve(request.memory, 0)?);
        while let Some(piece) = response.chunk().await.map_err(|error| reason(&error))? {
            if (body.len() + piece.len()) as u64 > request.body_max {
                return Err(format!("body size limit exceeded (body_size_limit: {})", request.body_max));
            }
            if body.capacity() - body.len() < piece.len() {
                // Both buffers exist while the old one is copied.
                let room = (body.capacity() * 2).max(body.len() + piece.len());
                memory.grow(room as u64).map_err(|error| short_of(&error))?;
                let before = body.capacity() as u64;
                body.reserve_exact(room - body.len());
                memory.shrink(before);
            }
            body.extend_from_slice(&piece);
        }
        Ok(Fetched { content_type, body, memory })
    }

    /// The credentials; files are read again each time.
    async fn credentials(&self, auth: &Auth) -> Result<Credentials, String> {
        let auth = auth.clone();
        if auth == Auth::None {
            return Ok(Credentials::None);
        }
        self.env
            .run_blocking(move || match auth {
                Auth::None => Ok(Credentials::None),
                Auth::Basic { username, password } => {
                    Ok(Credentials::Basic(username.read()?, password.read()?))
                }
                Auth::Token { kind, credentials } => {
                    Ok(Credentials::Token(format!("{kind} {}", credentials.read()?)))
                }
            })
            .await
    }
}

/// The metrics of this process.
fn own_page(app: &App, request: &FetchRequest<'_>) -> Result<Fetched, String> {
    let (content_type, page) = metrics_page(app, request.accept);
    let memory = reserve(request.memory, page.len() as u64)?;
    let content_type = content_type.to_str().unwrap_or_default().to_owned();
    Ok(Fetched { content_type, body: page.into_bytes(), memory })
}

impl Fetch for Http {
    fn fetch<'a>(&'a self, request: FetchRequest<'a>) -> BoxFuture<'a, Result<Fetched, String>> {
        match &self.own {
            Some((url, app)) if url == request.url => Box::pin(std::future::ready(own_page(app, &request))),
            _ => Box::pin(self.get(request)),
        }
    }
}

enum Credentials {
    None,
    Basic(String, String),
    Token(String),
}

fn reserve(budget: &MemoryBudget, bytes: u64) -> Result<Reservation, String> {
    budget.reserve(bytes).map_err(|error| short_of(&error))
}

/// The innermost cause: the outer texts repeat the URL.
pub(super) fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
