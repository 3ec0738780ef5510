//! Discovery over the network: names in the DNS and objects of Kubernetes.
//!
//! Each source has a task, which looks up its targets and waits for the refresh interval. A source that is
//! slow or does not answer delays no other source, no files and no scrape.
//!
//! **Invariants.** A look-up that fails keeps the targets of the last one that succeeded; the board and a
//! counter show it. The time of a look-up and the number of its targets are bounded, and the memory of its
//! targets is reserved.

mod dns;
mod kubernetes;
mod metrics;
mod source;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sandur_runtime::{Env, ShutdownSignal, Task};
use sandur_targets::TargetGroup;
use tokio::sync::Notify;

use crate::board::{Board, DiscoveryStatus};
use crate::config::JobConfig;
use crate::fetch::Fetch;
pub(crate) use dns::Resolver;
pub(crate) use kubernetes::InCluster;
pub use metrics::DiscoveryMetrics;
use source::{Listed, Source};

/// The longest look-up.
const LOOKUP_MAX: Duration = Duration::from_secs(120);

/// What sources need.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) env: Env,
    pub(crate) board: Arc<Board>,
    pub(crate) metrics: DiscoveryMetrics,
    pub(crate) fetch: Arc<dyn Fetch>,
    pub(crate) resolver: Resolver,
    pub(crate) cluster: InCluster,
    pub(crate) stopping: ShutdownSignal,
    /// Is notified when the targets of a source have changed.
    pub(crate) changed: Arc<Notify>,
}

/// The sources of a job, each with its task.
pub(crate) struct Watched(Vec<(Latest, Task<()>)>);

/// The targets of the last look-up that succeeded.
type Latest = Arc<Mutex<Option<Arc<Listed>>>>;

impl Watched {
    /// Starts the tasks of a job's sources.
    pub(crate) fn start(job: &JobConfig, around: &Surroundings) -> Self {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for names in &job.dns {
            sources.extend(names.names.iter().map(|name| -> Box<dyn Source> {
                Box::new(dns::DnsName {
                    resolver: around.resolver.clone(),
                    name: name.clone(),
                    kind: names.kind,
                    port: names.port,
                    refresh: names.refresh,
                })
            }));
        }
        let fetching = (&around.fetch, &around.resolver.memory);
        sources.extend(job.kubernetes.iter().map(|entry| -> Box<dyn Source> {
            Box::new(kubernetes::Kubernetes::new(&around.env, fetching, entry, &around.cluster))
        }));
        let start = |source: Box<dyn Source>| {
            let latest = Latest::default();
            let number = around.board.add_discovery(DiscoveryStatus {
                job: job.name.clone(),
                kind: source.kind(),
                source: source.name().to_owned(),
                ..DiscoveryStatus::default()
            });
            let task = watch(source, Arc::clone(&latest), around.clone(), number);
            (latest, around.env.spawn("discovery", task))
        };
        Self(sources.into_iter().map(start).collect())
    }

    /// Returns the targets of all sources.
    pub(crate) fn groups(&self) -> Vec<TargetGroup> {
        let listed = self.0.iter().filter_map(|(latest, _)| lock(latest).clone());
        listed.flat_map(|listed| listed.groups.clone()).collect()
    }
}

fn lock(latest: &Latest) -> std::sync::MutexGuard<'_, Option<Arc<Listed>>> {
    latest.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks up the targets of a source until the server stops.
async fn watch(source: Box<dyn Source>, latest: Latest, around: Surroundings, number: usize) {
    let Surroundings { env, board, metrics, stopping, changed, .. } = around;
    let mut is_failing = false;
    loop {
        let looked_up = env.timeout(LOOKUP_MAX, source.list()).await;
        let looked_up = looked_up
            .unwrap_or_else(|| Err(format!("the look-up took longer than {} s", LOOKUP_MAX.as_secs())));
        let (kind, name) = (source.kind(), source.name());
        metrics.refreshed(kind, looked_up.is_ok());
        // Once for a failure that lasts: there may be thousands of names.
        match &looked_up {
            Err(error) if !is_failing => {
                tracing::error!(kind, name, error, "cannot look up targets; the previous targets are kept");
            }
            Ok(_) if is_failing => tracing::info!(kind, name, "targets can be looked up again"),
            _ => {}
        }
        is_failing = looked_up.is_err();
        let now_ns = env.now_ns();
        board.change_discovery(number, |status| match &looked_up {
            Ok(listed) => {
                status.targets = listed.groups.len();
                (status.last_success_ns, status.last_error) = (now_ns, String::new());
            }
            Err(error) => {
                status.failures += 1;
                status.last_error.clone_from(error);
            }
        });
        if let Ok(listed) = looked_up {
            let mut latest = lock(&latest);
            if latest.as_ref().is_none_or(|before| before.groups != listed.groups) {
                *latest = Some(Arc::new(listed));
                changed.notify_one();
            }
        }
        if env.timeout(source.refresh(), stopping.triggered()).await.is_some() {
            return;
        }
    }
}
