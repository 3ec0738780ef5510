//! What handlers need, behind one shared handle.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::FromRef;
use prometheus_client::registry::Registry;
use sandur_config::Settings;
use sandur_listeners::carbon::Carbon;
use sandur_runtime::{Env, KeyedTurns, Shutdown, ShutdownSignal, Task};
use sandur_service::{OtherProcesses, Queries, Writes};

use sandur_rules::stored::StoredRules;
use sandur_rules::{OtherRulers, RulesShown};

use super::scrape_state::Scraping;
use crate::dashboard_folder::DashboardFolder;
use crate::server_metrics::ServerMetrics;

/// Shared state of all handlers. Cheap to clone: a handle.
#[derive(Clone)]
pub struct App(Arc<AppState>);

impl App {
    /// A handle of this state.
    pub fn new(state: AppState) -> Self {
        Self(Arc::new(state))
    }
}

impl Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

/// The shared state of all handlers.
pub struct AppState {
    /// Clock, randomness, tasks and CPU pool.
    pub env: Env,
    /// Configuration.
    pub settings: Arc<Settings>,
    /// Queries of all languages.
    pub queries: Queries,
    /// Writes of all signals.
    pub writes: Writes,
    /// The other processes of the store.
    pub others: Arc<dyn OtherRulers>,
    /// Turns of requests that change a group of a Pushgateway.
    pub groups: KeyedTurns,
    /// Counters of the server.
    pub metrics: ServerMetrics,
    /// All metrics of the process.
    pub registry: Registry,
    /// Whether the server is ready for requests.
    pub ready: AtomicBool,
    /// Triggered when the server stops.
    pub stopping: ShutdownSignal,
    /// Stops the server when it is triggered.
    pub shutdown: Shutdown,
    /// The task that a request to shut down started; it outlives the request.
    pub ending: Mutex<Option<Task<()>>>,
    /// Whether a request announced that this process will be scaled down.
    pub prepared: AtomicBool,
    /// What this process scrapes, once it does.
    pub scraping: Scraping,
    /// Rules that this process evaluates, once it does.
    pub rules: RulesShown,
    /// Rules that were stored through the API.
    pub stored_rules: StoredRules,
    /// Dashboards that the operator provides.
    pub dashboards: DashboardFolder,
    /// What listeners of Graphite's protocols counted.
    pub carbon: Carbon,
}

impl AppState {
    /// Whether requests shall be sent here.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) && !self.stopping.is_triggered()
    }
}

impl FromRef<App> for Queries {
    fn from_ref(app: &App) -> Self {
        app.queries.clone()
    }
}

impl FromRef<App> for Writes {
    fn from_ref(app: &App) -> Self {
        app.writes.clone()
    }
}

impl FromRef<App> for Arc<dyn OtherProcesses> {
    fn from_ref(app: &App) -> Self {
        let others: Arc<dyn OtherRulers> = Arc::clone(&app.others);
        others
    }
}

impl FromRef<App> for Arc<dyn OtherRulers> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.others)
    }
}

impl FromRef<App> for Arc<Settings> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.settings)
    }
}

impl FromRef<App> for Scraping {
    fn from_ref(app: &App) -> Self {
        app.scraping.clone()
    }
}

impl FromRef<App> for RulesShown {
    fn from_ref(app: &App) -> Self {
        app.rules.clone()
    }
}

impl FromRef<App> for StoredRules {
    fn from_ref(app: &App) -> Self {
        app.stored_rules.clone()
    }
}

impl FromRef<App> for Env {
    fn from_ref(app: &App) -> Self {
        app.env.clone()
    }
}

impl FromRef<App> for Carbon {
    fn from_ref(app: &App) -> Self {
        app.carbon.clone()
    }
}
