//! Addresses at which other nodes may be found: a list, names of DNS, and the bucket.
//!
//! Names are resolved every 30 s. Heartbeats in the bucket hold addresses too, so that processes with one
//! bucket and one secret find each other without a list.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sandur_runtime::{Env, Task};
use tokio::sync::watch;

use crate::network::Network;

/// How often names are resolved.
pub const RESOLVED_EVERY: Duration = Duration::from_secs(30);
/// Addresses, at most.
const SEEDS_MAX: usize = 1_024;

/// Returns the addresses that heartbeats in the bucket contain.
pub type BucketSeeds = Arc<dyn Fn() -> Vec<SocketAddr> + Send + Sync>;

/// The current seeds.
pub(crate) struct Seeds {
    fixed: Vec<SocketAddr>,
    resolved: watch::Receiver<Vec<SocketAddr>>,
    bucket: BucketSeeds,
    _resolving: Option<Task<()>>,
}

impl Seeds {
    /// Starts to resolve the names among `list`.
    pub(crate) fn start(env: &Env, network: &Arc<dyn Network>, list: &[String], bucket: BucketSeeds) -> Self {
        let fixed = list.iter().filter_map(|seed| seed.parse().ok()).collect();
        let names: Vec<String> =
            list.iter().filter(|seed| seed.parse::<SocketAddr>().is_err()).cloned().collect();
        let (sender, resolved) = watch::channel(Vec::new());
        let resolving = (!names.is_empty()).then(|| {
            let (own, network) = (env.clone(), Arc::clone(network));
            env.spawn("gossip seeds", async move { resolve(own, network, names, sender).await })
        });
        Self { fixed, resolved, bucket, _resolving: resolving }
    }

    /// All addresses that are known now.
    pub(crate) fn now(&self) -> Vec<SocketAddr> {
        let resolved = self.resolved.borrow().clone();
        let all = self.fixed.iter().copied().chain(resolved).chain((self.bucket)());
        let all: BTreeSet<SocketAddr> = all.take(SEEDS_MAX).collect();
        all.into_iter().collect()
    }
}

async fn resolve(
    env: Env,
    network: Arc<dyn Network>,
    names: Vec<String>,
    found: watch::Sender<Vec<SocketAddr>>,
) {
    let mut is_failing = false;
    loop {
        let (mut all, mut failure) = (BTreeSet::new(), None);
        for name in &names {
            match env.timeout(RESOLVED_EVERY, network.resolve(name)).await {
                Some(Ok(addresses)) => all.extend(addresses.into_iter().take(SEEDS_MAX)),
                Some(Err(error)) => failure = Some((name, error.to_string())),
                None => failure = Some((name, "no answer within 30 s".to_owned())),
            }
        }
        if let Some((name, error)) = &failure
            && !is_failing
        {
            tracing::warn!(name, error, "a name of cluster.seeds cannot be resolved; it is tried every 30 s");
        }
        is_failing = failure.is_some();
        // What was found before stays if nothing is found now: DNS may be away.
        if !all.is_empty() {
            found.send_replace(all.into_iter().collect());
        }
        env.sleep(RESOLVED_EVERY).await;
    }
}
