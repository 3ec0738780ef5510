//! A relay with its tasks: starts the workers of all targets, and stops them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sandur_memory::OverBudget;
use sandur_runtime::{Env, Shutdown, Task};

use crate::connect::Connector;
use crate::counters::TargetCounters;
use crate::delivery::{Delivery, Store, WORKER_BYTES};
use crate::lane::Lane;
use crate::memory::Memory;
use crate::model::Routing;
use crate::relay::{Outgoing, Relay};
use crate::router::{BadCluster, Router};
use crate::senders::Senders;
use crate::spool::Spool;

/// Bytes of a target's queue in memory, unless the configuration sets it.
const LANE_BYTES: u64 = 8 << 20;

/// The smallest queue of one connection in bytes: a chunk and one more line must fit.
const LANE_BYTES_MIN: u64 = 1 << 20;

/// Opens the spool of a connection to a target; `None` if it has none.
pub type OpenSpool<'a> = &'a dyn Fn(&str) -> std::io::Result<Option<Spool>>;

/// Why a relay cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The members of a cluster cannot form a ring.
    #[error(transparent)]
    Cluster(#[from] BadCluster),
    /// The budget has no room for the connections to targets.
    #[error("the relay's connections to targets: {0}; raise that limit or name fewer connections")]
    Memory(#[from] OverBudget),
    /// A spool cannot be opened.
    #[error("the spool of {target} cannot be opened: {reason}")]
    Spool {
        /// The name of the target.
        target: String,
        /// The system's error.
        reason: std::io::Error,
    },
}

/// A relay and its tasks.
pub struct Running {
    /// Receives lines.
    pub relay: Relay,
    /// Admits connections of senders.
    pub senders: Senders,
    shutdown: Shutdown,
    workers: Vec<Task<()>>,
    background: Vec<Task<()>>,
}

impl Running {
    /// Starts the workers of every target. All memory of the relay is reserved from `memory`. `host` is
    /// the host's name in the relay's own metrics.
    pub fn start(
        (env, memory): (&Env, &Memory),
        routing: Routing,
        connector: Arc<dyn Connector>,
        open_spool: OpenSpool<'_>,
        host: &str,
    ) -> Result<Self, StartError> {
        let router = Router::new(routing)?;
        let shutdown = Shutdown::default();
        let (mut targets, mut workers) = (Vec::new(), Vec::new());
        let limit = router.routing().queue_bytes.unwrap_or(LANE_BYTES).max(LANE_BYTES_MIN) as usize;
        for target in &router.routing().targets {
            let target = Arc::new(target.clone());
            let live = Arc::new(AtomicBool::new(true));
            let counters = Arc::new(TargetCounters::default());
            let mut lanes = Vec::new();
            for number in 0..target.connections.max(1) {
                let held = memory.queues.reserve(WORKER_BYTES + target.wrapping_bytes())?;
                let lane = Arc::new(Lane::new(limit, held));
                let name = spool_name(&target.metric_name(), number);
                let spool = if target.spools { open_spool(&name) } else { Ok(None) };
                let spool =
                    spool.map_err(|reason| StartError::Spool { target: target.node.to_string(), reason })?;
                let delivery = Delivery {
                    env: env.clone(),
                    target: Arc::clone(&target),
                    lane: Arc::clone(&lane),
                    live: Arc::clone(&live),
                    counters: Arc::clone(&counters),
                    connector: Arc::clone(&connector),
                    stopping: shutdown.signal(),
                    store: Store::new(env.clone(), Arc::clone(&lane), Arc::clone(&counters), spool),
                };
                workers.push(env.spawn("delivery to a target", delivery.run()));
                lanes.push(lane);
            }
            targets.push(Outgoing { lanes, live, counters });
        }
        let relay = Relay::new(env, router, targets, memory, host);
        let background = vec![
            env.spawn("aggregation", relay.clone().aggregate()),
            env.spawn("own metrics of the relay", relay.clone().report()),
        ];
        let senders = Senders::new(env, &relay, &memory.senders);
        Ok(Self { relay, senders, shutdown, workers, background })
    }

    /// Writes queued lines for a few seconds, and puts the rest on disk.
    pub async fn stop(self) {
        drop(self.background);
        self.shutdown.trigger();
        for worker in self.workers {
            if let Err(error) = worker.join().await {
                tracing::error!(%error, "the delivery to a target failed");
            }
        }
    }
}

/// Returns the directory name of a spool.
fn spool_name(target: &str, connection: u16) -> String {
    let safe =
        |letter: char| if letter.is_ascii_alphanumeric() || "_-".contains(letter) { letter } else { '+' };
    let name: String = target.chars().map(safe).collect();
    format!("{name}.{connection}")
}
