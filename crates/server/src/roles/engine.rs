//! Opens the store and the engine as configured, and adapts the engine to the traits of handlers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use sandur_base::{BoxFuture, ErrorKind, Id};
use sandur_cache::Cache;
use sandur_catalog::{GcOptions, Hints};
use sandur_config::{Settings, Storage, TenantLimits};
use sandur_engine::{
    CancelRefusal, ClusterReport, CompactionPolicy, DeleteOptions, DeleteStatus, Engine, EngineOptions,
    MaintenanceOptions, NodeOptions, NodeReport,
};
use sandur_logql::DeleteQuery;
use sandur_memory::MemoryBudget;
use sandur_model::go_text::format_go_duration;
use sandur_model::{Batch, Dataset, Role, SampleBatch, SampleConflicts, Signal, TenantId, TimeRange};
use sandur_query::Sources;
use sandur_runtime::{Env, FairReservation};
use sandur_service::promql;
use sandur_service::{
    BlockShown, ClusterShown, DeleteShown, Deletes, Failure, Intake, NodeShown, no_such_delete,
};
use sandur_store::{RequestLimits, Store, StoreKind, StoreOptions, TenantRates};
use sandur_terminal::Failed;

use crate::block_cache::{self, CacheMemory};
use crate::memory::Shares;
use crate::node_identity::{NodeIdentity, own_address};
use crate::roles::gossip::{self, Gossip};
use crate::roles::peers::PeerCalls;
use crate::roles::retention::Kept;

/// Maximum size of an object that is sent in one request, when memory is scarce and otherwise.
const WHOLE_UPLOAD_LEAST: usize = 16 << 20;
const WHOLE_UPLOAD_MOST: usize = 64 << 20;

/// An open engine with its interfaces.
pub struct Opened {
    /// The engine itself.
    pub engine: Arc<Engine>,
    /// The store.
    pub store: Store,
    /// The sources of queries.
    pub sources: Sources,
    /// The write path.
    pub intake: Arc<dyn Intake>,
    /// Metrics of the crates below.
    pub registry: Registry,
    /// What an acknowledgement means, for the message at the start.
    pub durability: String,
    /// Calls from and to the other processes of the bucket, if they share a secret.
    pub calls: Option<PeerCalls>,
}

/// Opens the store and the engine.
pub async fn open(
    env: &Env,
    settings: &Settings,
    shares: &Shares,
    (limits, kept): (&Arc<TenantLimits>, Kept),
    address: SocketAddr,
) -> Result<Opened, Failed> {
    let request_limits = request_limits(&settings.storage, shares, Arc::clone(limits));
    let store =
        Store::open(&settings.store, env.clone(), StoreOptions { request_limits, ..StoreOptions::default() });
    let store = store.await.map_err(|e| Failed::new(e.to_string()))?;
    open_over(store, (env, settings), shares, (limits, kept), address).await
}

/// Opens the engine over a store that is open; tests use a store that fails.
pub async fn open_over(
    store: Store,
    (env, settings): (&Env, &Settings),
    shares: &Shares,
    (limits, kept): (&Arc<TenantLimits>, Kept),
    address: SocketAddr,
) -> Result<Opened, Failed> {
    let durability = match store.kind() {
        StoreKind::Local { root } => format!("acknowledged means fsynced to {}", root.display()),
        StoreKind::Bucket => format!("acknowledged means stored in {}", store.url()),
        StoreKind::Memory => "none: the store is this process's memory".to_owned(),
    };
    let has_bucket = matches!(store.kind(), StoreKind::Bucket);
    let identity = NodeIdentity::of(env, settings, store.kind())?;
    let (listens_on, (address, host)) = (address.ip(), own_address(settings, address)?);
    let cache = block_cache::open(
        env,
        &settings.cache,
        CacheMemory { budget: shares.cache.clone(), nominal: shares.cache_nominal },
        has_bucket,
    );
    let mut options = engine_options(settings, shares, (Arc::clone(limits), kept));
    (options.address, options.host) = (address, host);
    let flash_bytes = cache.stats().flash.map_or(0, |flash| flash.device.capacity_bytes);
    options.node = NodeOptions {
        id: identity.id.clone(),
        zone: settings.cluster.zone.clone(),
        // A node without files cannot take over rules of files.
        roles: match settings.rules.is_empty() && !settings.self_rules {
            true => settings.cluster.roles,
            false => settings.cluster.roles.with(Role::RuleFiles),
        },
        cache_bytes: shares.cache_nominal.saturating_add(flash_bytes),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let gossip = match has_bucket {
        true => {
            gossip::start(env, settings, store.url(), (listens_on, &options.address, &identity.id)).await?
        }
        false => None,
    };
    let calls = if has_bucket { PeerCalls::open(env, settings)? } else { None };
    options.peers = calls.as_ref().map(PeerCalls::peers);
    options.hints = gossip.clone().map(|gossip| gossip as Arc<dyn Hints>);
    let filters = shares.filters.clone();
    (options.cache, options.deletes.filter_budget) = (Some(cache.clone()), filters.clone());
    let engine = Engine::open(store.clone(), env.clone(), options).await;
    let engine = engine.map_err(|e| Failed::new(format!("cannot open the store: {e}")))?;
    let mut registry = Registry::default();
    store.meter().register(&mut registry);
    engine.catalog().metrics().register(&mut registry);
    engine.metrics().register(&mut registry);
    cache.register(&mut registry);
    gossip.iter().for_each(|gossip| gossip.register(&mut registry));
    calls.iter().for_each(|calls| calls.register(&mut registry));
    let sources = engine.sources().of_several_tenants();
    let (write, compaction) = (shares.write.clone(), shares.compaction.clone());
    let budgets = vec![filters, write, compaction, shares.cache.clone(), shares.pool.all().clone()];
    let parts = EngineIntake { engine: Arc::clone(&engine), cache, budgets, gossip, _identity: identity };
    let intake = Arc::new(parts);
    Ok(Opened { engine, store, sources, intake, registry, durability, calls })
}

fn request_limits(storage: &Storage, shares: &Shares, limits: Arc<TenantLimits>) -> RequestLimits {
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    RequestLimits {
        concurrent_reads_max: count(storage.max_concurrent_reads),
        concurrent_writes_max: count(storage.max_concurrent_writes),
        waiting_max: usize::try_from(storage.max_waiting).unwrap_or(usize::MAX),
        hedge_percent: count(storage.hedging_max_percent),
        hedge_after_min: storage.hedging_at,
        retry_percent: count(storage.retry_max_percent),
        whole_upload_max: whole_upload_max(shares),
        rates_of: Arc::new(move |tenant| {
            let limits = limits.of_one(tenant);
            TenantRates {
                requests_per_second: limits.store_request_rate,
                requests_burst: limits.store_request_burst,
                bytes_per_second: limits.store_read_rate,
                bytes_burst: limits.store_read_burst,
            }
        }),
        prices: storage.prices,
        ..RequestLimits::default()
    }
}

/// Bytes of an upload that are buffered before it is sent. More saves requests, and uses memory of
/// writes.
fn whole_upload_max(shares: &Shares) -> usize {
    let eighth = usize::try_from(shares.write.kept() / 8).unwrap_or(usize::MAX);
    eighth.clamp(WHOLE_UPLOAD_LEAST, WHOLE_UPLOAD_MOST)
}

fn engine_options(
    settings: &Settings,
    shares: &Shares,
    (limits, (retention_of, rollups)): (Arc<TenantLimits>, Kept),
) -> EngineOptions {
    let defaults = MaintenanceOptions::default();
    let maintenance = MaintenanceOptions {
        interval: settings.compaction.interval,
        gc_interval: settings.retention.interval,
        compaction: CompactionPolicy {
            block_raw_bytes_max: settings.compaction.block_max,
            ..CompactionPolicy::default()
        },
        compaction_budget: shares.compaction.clone(),
        gc: GcOptions { grace: settings.retention.delete_delay, ..GcOptions::default() },
        retention_of,
        rollups,
        retention_change_delay: settings.retention.change_delay,
        ..defaults
    };
    EngineOptions {
        write_budget: shares.write.clone(),
        pool: Some(shares.pool.clone()),
        flush_bytes: settings.flush.max_bytes,
        flush_parallelism: shares.flush_parallelism(),
        flush_age: settings.flush.max_age,
        wal_frame_bytes: settings.wal.group_bytes,
        wal_linger: settings.wal.group_age,
        wal_requests_per_second: settings.wal.requests_per_second,
        wal_requests_burst: settings.wal.requests_burst as f64,
        poll_interval: settings.cluster.poll_interval,
        poll_told_interval: settings.cluster.poll_interval_idle,
        view_age_max: settings.query.max_view_age,
        heartbeat_interval: settings.cluster.heartbeat_interval,
        dead_after: settings.cluster.dead_after,
        maintenance,
        deletes: delete_options(settings, limits),
        ..EngineOptions::default()
    }
}

fn delete_options(settings: &Settings, limits: Arc<TenantLimits>) -> DeleteOptions {
    DeleteOptions {
        cancel_period: settings.compaction.delete_request_cancel_period,
        mode_of: Arc::new(move |tenant| limits.of(tenant).deletion_mode),
        compile: Arc::new(|text| Ok(Arc::new(DeleteQuery::new(text)?))),
        compile_samples: Some(Arc::new(|text| Ok(Arc::new(promql::series_selector(text)?)))),
        ..DeleteOptions::default()
    }
}

/// The engine as the trait of handlers.
struct EngineIntake {
    engine: Arc<Engine>,
    cache: Cache,
    /// The budgets of the engine, for metrics.
    budgets: Vec<MemoryBudget>,
    /// The gossip with other processes of the bucket.
    gossip: Option<Arc<Gossip>>,
    /// Keeps the id of this node from other processes.
    _identity: NodeIdentity,
}

/// How long a shutdown waits until the memory tier of the cache is written to flash.
const CACHE_PATIENCE: Duration = Duration::from_secs(10);

/// Converts an error to the answer to a client. If the store denies access, it denies it to this server,
/// not to the client: an agent that gets a 401 drops its data.
fn failure(error: sandur_engine::Error) -> Failure {
    let kind = match error.kind() {
        ErrorKind::Denied => ErrorKind::Unavailable,
        kind => kind,
    };
    Failure::new(kind, error.to_string()).with_outcome(error.may_be_stored())
}

impl Intake for EngineIntake {
    fn push(
        &self,
        batch: Batch,
        held: Option<FairReservation>,
    ) -> BoxFuture<'_, Result<SampleConflicts, Failure>> {
        Box::pin(async move { self.engine.push_holding(batch, held).await.map_err(failure) })
    }

    fn push_under(&self, batch: Batch, incarnation: Id) -> BoxFuture<'_, Result<SampleConflicts, Failure>> {
        Box::pin(async move { self.engine.push_under(incarnation, batch).await.map_err(failure) })
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move { self.engine.flush().await.map_err(failure) })
    }

    fn writable(&self) -> Result<(), Failure> {
        self.engine.writable().map_err(failure)
    }

    fn admits_pushes(&self) -> Result<(), Failure> {
        self.engine.admits_pushes().map_err(failure)
    }

    fn has_fresh_view(&self) -> Result<(), Failure> {
        self.engine.has_fresh_view().map_err(failure)
    }

    fn flushes_fail_for(&self) -> Option<Duration> {
        self.engine.flushes_fail_for()
    }

    fn series_beyond(&self, batch: &SampleBatch, most: u64) -> Vec<u32> {
        self.engine.view().series_beyond(batch, most)
    }

    fn deletes(&self, signal: Signal) -> Option<Arc<dyn Deletes>> {
        Some(Arc::new(EngineDeletes { engine: Arc::clone(&self.engine), signal }))
    }

    fn blocks(&self, dataset: &Dataset) -> Vec<BlockShown> {
        let view = self.engine.view();
        let shown = |block: &Arc<sandur_format::catalog_entry::BlockMeta>| BlockShown {
            id: block.id,
            first_ms: block.min_ts.div_euclid(1_000_000),
            last_ms: block.max_ts.div_euclid(1_000_000),
            samples: block.rows,
            series: block.streams,
            pages: block.pages,
            level: block.level,
        };
        view.snapshot.blocks(dataset, TimeRange::ALL).map(shown).collect()
    }

    fn observe(&self) {
        // Reading them updates the gauges of the heads.
        self.engine.metrics();
        self.engine.store().meter();
    }

    fn budgets(&self) -> Vec<MemoryBudget> {
        self.budgets.clone()
    }

    fn store_report(&self) -> String {
        self.engine.store_report()
    }

    fn cluster(&self) -> BoxFuture<'_, ClusterShown> {
        Box::pin(async move { cluster_shown(self.engine.report_nodes().await) })
    }

    fn is_draining(&self) -> bool {
        self.engine.is_draining()
    }

    fn drain<'a>(&'a self, node: Option<&'a str>, leaves: bool) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async move {
            match node {
                None => self.engine.drain(leaves).await.map(|()| true).map_err(failure),
                Some(id) => self.engine.drain_node(id, leaves).await.map_err(failure),
            }
        })
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async move {
            self.gossip.iter().for_each(|gossip| gossip.drain());
            let ended = self.engine.shutdown().await.map_err(failure);
            if let Some(gossip) = &self.gossip {
                gossip.leave().await;
            }
            let cache = self.cache.clone();
            self.engine.env().run_blocking(move || cache.close(CACHE_PATIENCE)).await;
            ended
        })
    }
}

fn cluster_shown(report: ClusterReport) -> ClusterShown {
    ClusterShown {
        node: report.own,
        catalog: report.catalog,
        catalog_age: report.catalog_age,
        writes: report.forms.to_string(),
        is_held: report.is_held,
        unowned: report.unowned,
        nodes: report.nodes.into_iter().map(node_shown).collect(),
    }
}

fn node_shown(node: NodeReport) -> NodeShown {
    NodeShown {
        state: if node.silent_for.is_none() { "ended" } else { node.phase.name() },
        id: node.id,
        zone: node.zone,
        roles: node.roles,
        version: node.version,
        reads: node.reads.to_string(),
        edits: node.edits,
        host: node.host,
        address: node.address,
        incarnation: node.incarnation.to_string(),
        started_ms: node.started_ms,
        cache_bytes: node.cache_bytes,
        silent_for: node.silent_for,
        catalog: node.seen,
        is_member: node.is_member,
        shares: node.shares,
        windows: node.windows,
        rows_age: node.rows_age,
        rows_missing: node.rows_missing,
    }
}

/// The delete requests of the engine as the trait of handlers.
struct EngineDeletes {
    engine: Arc<Engine>,
    signal: Signal,
}

impl EngineDeletes {
    fn dataset(&self, tenant: &TenantId) -> Dataset {
        Dataset { tenant: tenant.clone(), signal: self.signal }
    }
}

impl Deletes for EngineDeletes {
    fn check<'a>(&'a self, tenant: &'a TenantId, query: &'a str) -> BoxFuture<'a, Result<bool, Failure>> {
        Box::pin(async move { self.engine.check_delete(&self.dataset(tenant), query).await.map_err(failure) })
    }

    fn create<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a str,
        start_ms: i64,
        end_ms: i64,
    ) -> BoxFuture<'a, Result<Id, Failure>> {
        let dataset = self.dataset(tenant);
        Box::pin(async move {
            self.engine.create_delete(&dataset, query, start_ms, end_ms).await.map_err(failure)
        })
    }

    fn list<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<Vec<DeleteShown>, Failure>> {
        let shown = |DeleteStatus { record, percent }| {
            let request = record.request;
            DeleteShown {
                id: request.id,
                start_ms: request.start_ms,
                end_ms: request.end_ms,
                created_ms: request.created_ms,
                query: request.query,
                percent,
            }
        };
        Box::pin(async move {
            let all = self.engine.deletes(&self.dataset(tenant)).await.map_err(failure)?;
            Ok(all.into_iter().map(shown).collect())
        })
    }

    fn cancel<'a>(&'a self, tenant: &'a TenantId, id: Id, force: bool) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            self.engine.cancel_delete(&self.dataset(tenant), id, force).await.map_err(cancel_failure)
        })
    }
}

/// A refused cancellation with Loki's text.
fn cancel_failure(error: sandur_engine::Error) -> Failure {
    let sandur_engine::Error::Cancel(refusal) = error else { return failure(error) };
    match refusal {
        CancelRefusal::Unknown => no_such_delete(),
        CancelRefusal::Processed => {
            Failure::invalid("deletion of request which is in process or already processed is not allowed\n")
        }
        CancelRefusal::Late { period } => {
            let period = format_go_duration(i64::try_from(period.as_nanos()).unwrap_or(i64::MAX));
            Failure::invalid(format!(
                "Cancellation of partially completed delete request or delete request past the deadline of \
                 {period} since its creation is not allowed. To force, use the ?force query parameter\n"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use sandur_store::{Error, Operation, Place};

    use super::*;

    /// Agents drop their data after a 401, so denied access to the store must be a 503.
    #[test]
    fn denied_access_to_the_store_is_not_a_clients_fault() {
        let at = Place { store: "s3://bucket".into(), operation: Operation::Put, path: "wal/1".to_owned() };
        let denied = Error::Denied { at, reason: "status code: 403".to_owned(), remedy: "renew the key" };
        let failure = failure(sandur_engine::Error::from(denied));
        assert_eq!(sandur_service::status_of(failure.kind), 503);
        assert!(failure.message.contains("renew the key"), "{}", failure.message);
    }
}
