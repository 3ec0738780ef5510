//! The relay inside of `serve`: sends points to other targets and, under the host name [`SELF`], into
//! this server's own store, where written means stored.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_config::Settings;
use sandur_http::App;
use sandur_memory::MemoryBudget;
use sandur_model::{GraphiteName, SampleBatch, TenantId};
use sandur_relay::config::read;
use sandur_relay::connect::{Connection, Network, WithSelf};
use sandur_relay::intake::listen;
use sandur_relay::line::parse;
use sandur_relay::memory::Memory;
use sandur_relay::model::Routing;
use sandur_relay::running::Running;
use sandur_relay::spool::{Directory, Options, Spool};
use sandur_runtime::Task;
use sandur_service::Writes;
use sandur_terminal::Failed;

use crate::open_files::OpenFiles;

/// The name of this server among the targets of its relay.
pub const SELF: &str = "sandur";

/// Memory for a point that is being stored, bytes.
const POINT_BYTES: u64 = 512;

/// A running relay.
pub struct Relaying {
    running: Running,
    accepting: Vec<Task<()>>,
    /// Addresses of its listeners.
    pub listening: Vec<SocketAddr>,
}

/// Reads and checks the configuration of the relay; `None` if there is none.
pub fn configured(settings: &Settings) -> Result<Option<(Routing, TenantId)>, Failed> {
    if settings.relay_config.is_empty() {
        return Ok(None);
    }
    let path = &settings.relay_config;
    let wrong = |why: String| Failed::new(format!("relay_config: {why}"));
    let routing = read(Path::new(path), None, None).map_err(|error| wrong(error.to_string()))?;
    for note in &routing.notes {
        tracing::warn!("{note}");
    }
    if routing.notes.iter().any(|note| note.is_grave()) {
        return Err(wrong(format!(
            "some lines of {path} are not supported: `sandur relay --config {path} --check` lists them"
        )));
    }
    let tenant = TenantId::new(&settings.relay_tenant)
        .map_err(|error| Failed::new(format!("relay_tenant: {error}")))?;
    for listener in &routing.listeners {
        check_listener(&listener.address, settings.insecure_listen)?;
    }
    Ok(Some((routing, tenant)))
}

/// Starts the relay that the options configure.
pub async fn start(app: &App) -> Result<Option<Relaying>, Failed> {
    let settings = &app.settings;
    let Some((routing, tenant)) = configured(settings)? else { return Ok(None) };
    let wrong = |why: String| Failed::new(format!("relay_config: {why}"));
    let listeners = routing.listeners.clone();
    let budget = app.writes.memory().budget();
    let memory = budget.child("relay", budget.limit() / 4);
    // A separate share: full queues must not block the storing of points, which empties them.
    let held = Memory::within(budget);
    let own = Own { writes: app.writes.clone(), tenant, memory };
    let open = Box::new(move || Box::new(own.clone()) as Box<dyn Connection>);
    let network = Network::of(&routing).map_err(|error| wrong(error.to_string()))?;
    let connector = WithSelf { host: SELF.to_owned(), open, network: Arc::new(network) };
    let directory = spool_directory(settings, routing.spool_directory.as_deref());
    let open_spool = |name: &str| match &directory {
        None => Ok(None),
        Some(directory) => {
            let disk = Directory::open(directory.join(name))?;
            Spool::open(Arc::new(disk), Options::default()).map(Some)
        }
    };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let running = Running::start((&app.env, &held), routing, Arc::new(connector), &open_spool, &host)
        .map_err(|error| wrong(error.to_string()))?;
    let most = OpenFiles::now(settings).connections_max();
    running.senders.limit_connections(usize::try_from(most).unwrap_or(usize::MAX));
    let (mut accepting, mut listening) = (Vec::new(), Vec::new());
    for listener in &listeners {
        let bound = listen(&running.senders, listener, app.stopping.clone()).await;
        let (address, task) = bound.map_err(|error| wrong(format!("{}: {error}", listener.address)))?;
        tracing::info!(%address, "the relay listens");
        accepting.push(task);
        listening.push(address);
    }
    Ok(Some(Relaying { running, accepting, listening }))
}

fn spool_directory(settings: &Settings, of_file: Option<&str>) -> Option<PathBuf> {
    let own = Some(settings.relay_spool_dir.as_str()).filter(|own| !own.is_empty());
    own.or(of_file).map(PathBuf::from)
}

/// Carbon's protocols have no credentials, so an address beyond loopback needs an option.
pub fn check_listener(address: &str, is_insecure_allowed: bool) -> Result<(), Failed> {
    let found = std::net::ToSocketAddrs::to_socket_addrs(address);
    let mut found = found.map_err(|error| Failed::new(format!("{address}: {error}")))?;
    if is_insecure_allowed || found.all(|address| address.ip().is_loopback()) {
        return Ok(());
    }
    Err(Failed::new(format!(
        "{address} is not loopback, and carbon's protocols have no credentials: use --insecure-listen if \
         its network is trusted"
    )))
}

impl Relaying {
    /// Stops the listeners, writes what is queued, and stores the rest on disk.
    pub async fn stop(self) {
        for task in self.accepting {
            if let Err(error) = task.join().await {
                tracing::error!(%error, "a listener of the relay failed");
            }
        }
        self.running.stop().await;
    }
}

/// The connection to this server's own store.
#[derive(Clone)]
struct Own {
    writes: Writes,
    tenant: TenantId,
    memory: MemoryBudget,
}

impl Connection for Own {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            let lines = memchr::memchr_iter(b'\n', bytes).count() as u64;
            // The relay retries what is refused for now, so the reservation must be one that can succeed.
            let wanted = (lines * POINT_BYTES).min(self.memory.limit() / 2);
            let _held = self.memory.reserve(wanted).map_err(io::Error::other)?;
            self.writes.has_memory().map_err(io::Error::other)?;
            let batch = self.within_limits(batch(&self.tenant, bytes, self.writes.env().now_ns()));
            let samples = batch.rows() as u64;
            if samples == 0 {
                return Ok(());
            }
            match self.writes.intake().push(batch.into(), None).await {
                Ok(_) => {
                    self.writes.metrics().samples.inc_by(samples);
                    self.writes.totals().accept_samples(&self.tenant, [samples, 0, 0]);
                }
                // A retry would be refused again and block all later points.
                Err(failure) if !failure.may_pass() => {
                    self.refused("relay_refused", samples, &failure.message);
                }
                Err(failure) => return Err(io::Error::other(failure.message)),
            }
            Ok(())
        })
    }

    fn ended(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

impl Own {
    /// Removes new series of a tenant that has reached its limit of series.
    fn within_limits(&self, batch: SampleBatch) -> SampleBatch {
        let most = self.writes.limits(&self.tenant).metrics.max_global_series_per_user;
        if most == 0 {
            return batch;
        }
        let beyond = self.writes.intake().series_beyond(&batch, most);
        if beyond.is_empty() {
            return batch;
        }
        let before = batch.rows() as u64;
        let within = batch.without_series(&beyond);
        self.refused("per_user_series_limit", before - within.rows() as u64, "max_global_series_per_user");
        within
    }

    fn refused(&self, reason: &'static str, samples: u64, why: &str) {
        self.writes.metrics().refused_samples(reason, samples);
        self.writes.refusals().note(&self.tenant, reason, samples, why);
    }
}

/// Parses lines into a batch, with series in the order of their first points.
fn batch(tenant: &TenantId, bytes: &[u8], now_ns: i64) -> SampleBatch {
    let mut order: Vec<(&str, Vec<(i64, f64)>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(Some(point)) = parse(line, now_ns / 1_000_000_000) else { continue };
        let Ok(name) = std::str::from_utf8(point.name) else { continue };
        let place = *places.entry(name).or_insert_with(|| {
            order.push((name, Vec::new()));
            order.len() - 1
        });
        order[place].1.push(((point.time.trunc() * 1_000.0) as i64, point.value));
    }
    let mut batch = SampleBatch::new(tenant.clone());
    for (name, points) in order {
        match GraphiteName::parse(name).labels() {
            Ok(labels) => batch.push(Arc::new(labels), points),
            Err(error) => tracing::debug!(name, %error, "a name from the relay cannot be stored"),
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_samples_of_graphites_series() {
        let lines = b"a.b 1 10\na.c 2 10\na.b 3 11.9\nx;t=v 4 12\nno line\na\xff.b 1 1\n";
        let batch = batch(&TenantId::default_tenant(), lines, 0);
        let series: Vec<String> = batch.series.iter().map(|series| series.labels.to_string()).collect();
        assert_eq!(series.len(), 3, "{series:?}");
        assert_eq!(batch.timestamps, [10_000, 11_000, 10_000, 12_000]);
        assert_eq!(batch.values, [1.0, 3.0, 2.0, 4.0]);
        assert_eq!(batch.series[0].labels.get("__g1__"), Some("b"));
        assert_eq!(batch.series[2].labels.get("t"), Some("v"));
    }

    #[test]
    fn a_listener_beyond_loopback_needs_the_option() {
        assert!(check_listener("127.0.0.1:0", false).is_ok());
        assert!(check_listener("0.0.0.0:0", false).is_err());
        assert!(check_listener("0.0.0.0:0", true).is_ok());
    }
}
