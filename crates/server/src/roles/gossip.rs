//! Gossip with the other processes of the bucket, as hints for the engine.
//!
//! Without a secret and without `cluster.gossip = "on"` no socket is opened.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::registry::Registry;
use sandur_base::Id;
use sandur_catalog::Hints;
use sandur_config::{Cluster, Settings};
use sandur_membership::{Membership, NodeState, Options, Udp};
use sandur_runtime::Env;
use sandur_terminal::Failed;
use tokio::sync::watch;

/// The port of gossip if none is configured.
const PORT: u16 = 3101;
/// How long a stopping process tries to tell the others.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(1);

/// A process that gossips.
pub struct Gossip {
    env: Env,
    membership: Membership,
    /// Addresses in the heartbeats of others.
    found: Arc<Mutex<Vec<SocketAddr>>>,
    own: Mutex<Own>,
}

/// What this process says.
struct Own {
    state: NodeState,
    catalog: u64,
    segment: u64,
    is_draining: bool,
}

/// Starts to gossip, if the settings say so.
pub async fn start(
    env: &Env,
    settings: &Settings,
    store_url: &str,
    (listens_on, peer_address, node): (IpAddr, &str, &str),
) -> Result<Option<Arc<Gossip>>, Failed> {
    let cluster = &settings.cluster;
    let has_secret = !cluster.secret_file.is_empty();
    let is_wanted = match cluster.gossip.as_str() {
        "on" => true,
        "off" => false,
        _ => has_secret,
    };
    if !is_wanted {
        return Ok(None);
    }
    let (listen, may_use_free_port) = listen_address(cluster, listens_on)?;
    let state = NodeState {
        node: node.to_owned(),
        zone: cluster.zone.clone(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        peer_address: peer_address.to_owned(),
        gossip_address: listen,
        roles: cluster.roles.bits(),
        cache_bytes: settings.cache.size,
        writer: None,
    };
    let found = Arc::<Mutex<Vec<SocketAddr>>>::default();
    let in_bucket = Arc::clone(&found);
    let options = Options {
        cluster: cluster_name(cluster, store_url),
        secret_file: has_secret.then(|| PathBuf::from(&cluster.secret_file)),
        listen,
        may_use_free_port,
        advertise: advertised(cluster)?,
        state: state.clone(),
        seeds: seeds(cluster)?,
        bucket_seeds: Arc::new(move || in_bucket.lock().unwrap_or_else(PoisonError::into_inner).clone()),
    };
    let membership = Membership::start(env, Arc::new(Udp), options).await;
    let membership = membership.map_err(|error| Failed::new(error.to_string()))?;
    let address = membership.address();
    tracing::info!(%address, sealed = has_secret, "gossip with other processes starts");
    let own = Mutex::new(Own { state, catalog: 0, segment: 0, is_draining: false });
    Ok(Some(Arc::new(Gossip { env: env.clone(), membership, found, own })))
}

/// The address of the socket, and whether another port may be used.
fn listen_address(cluster: &Cluster, http: IpAddr) -> Result<(SocketAddr, bool), Failed> {
    match cluster.gossip_listen.as_str() {
        "" => Ok((SocketAddr::new(http, PORT), true)),
        text => Ok((parsed("cluster.gossip_listen", text)?, false)),
    }
}

fn advertised(cluster: &Cluster) -> Result<Option<SocketAddr>, Failed> {
    match cluster.gossip_advertise.as_str() {
        "" => Ok(None),
        text => parsed("cluster.gossip_advertise", text).map(Some),
    }
}

/// The seeds, each with a port. Names are resolved later.
fn seeds(cluster: &Cluster) -> Result<Vec<String>, Failed> {
    let has_port = |seed: &&String| {
        let parts = seed.rsplit_once(':');
        parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
    };
    match cluster.seeds.iter().find(|seed| !has_port(seed)) {
        Some(seed) => {
            Err(Failed::new(format!("cluster.seeds: '{seed}' is not HOST:PORT, such as node-1:{PORT}")))
        }
        None => Ok(cluster.seeds.clone()),
    }
}

fn parsed(option: &str, text: &str) -> Result<SocketAddr, Failed> {
    let wrong = |_| Failed::new(format!("{option}: '{text}' is not an address like 10.0.0.1:{PORT}"));
    text.parse().map_err(wrong)
}

/// The name by which clusters that share a secret are told apart.
fn cluster_name(cluster: &Cluster, store_url: &str) -> String {
    match cluster.name.as_str() {
        "" => store_url.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned(),
        name => name.to_owned(),
    }
}

impl Gossip {
    /// Registers the metrics of gossip.
    pub fn register(&self, registry: &mut Registry) {
        self.membership.metrics().register(registry);
    }

    /// Tells the others that this process hands over its work.
    pub fn drain(&self) {
        let mut own = self.own();
        own.is_draining = true;
        self.announce(&own);
    }

    /// Tells the others that this process stops.
    pub async fn leave(&self) {
        // Others notice it without a farewell, too.
        let _ = self.env.timeout(FAREWELL_PATIENCE, self.membership.leave()).await;
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(&self, own: &Own) {
        self.membership.announce(own.catalog, own.segment, own.is_draining);
    }
}

impl fmt::Debug for Gossip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gossip").field("address", &self.membership.address()).finish_non_exhaustive()
    }
}

impl Hints for Gossip {
    fn address(&self) -> Option<SocketAddr> {
        Some(self.membership.address())
    }

    fn note_addresses(&self, addresses: Vec<SocketAddr>) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    fn gone_for(&self, writer: Id) -> Option<Duration> {
        self.membership.view().writer(writer)?.liveness.gone_for(self.env.monotonic())
    }

    fn next_segment(&self, writer: Id) -> Option<u64> {
        let view = self.membership.view();
        view.writer(writer).filter(|peer| peer.liveness.is_alive()).map(|peer| peer.wal)
    }

    fn catalog(&self) -> u64 {
        self.membership.view().catalog()
    }

    fn news(&self) -> watch::Receiver<u64> {
        self.membership.news()
    }

    fn announce_catalog(&self, number: u64) {
        let mut own = self.own();
        own.catalog = own.catalog.max(number);
        self.announce(&own);
    }

    fn announce_segment(&self, writer: Id, next: u64) {
        let mut own = self.own();
        if own.state.writer != Some(writer) {
            own.state.writer = Some(writer);
            if let Err(error) = self.membership.set_state(own.state.clone()) {
                tracing::warn!(%error, "the incarnation of this process cannot be announced");
            }
        }
        own.segment = next;
        self.announce(&own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(change: impl FnOnce(&mut Cluster)) -> Settings {
        let mut settings = Settings::default();
        change(&mut settings.cluster);
        settings
    }

    async fn started(settings: &Settings, http: &str) -> Result<Option<Arc<Gossip>>, String> {
        let env = Env::system(1);
        let url = "s3://bucket/prefix?endpoint=http://localhost";
        let listens_on = http.parse::<SocketAddr>().unwrap().ip();
        let gossip = start(&env, settings, url, (listens_on, http, "node")).await;
        gossip.map_err(|failed| failed.message().to_owned())
    }

    #[tokio::test]
    async fn a_socket_is_opened_only_with_a_secret_or_on_request_and_then_on_loopback() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "0123456789abcdef0123456789abcdef").unwrap();
        let secret = path.display().to_string();
        let loopback = "127.0.0.1:3100";
        assert!(started(&settings(|_| {}), loopback).await.unwrap().is_none());
        let off = settings(|cluster| {
            (cluster.secret_file, cluster.gossip) = (secret.clone(), "off".to_owned());
        });
        assert!(started(&off, loopback).await.unwrap().is_none());
        let with_secret = settings(|cluster| cluster.secret_file = secret.clone());
        let (one, two) = (started(&with_secret, loopback).await, started(&with_secret, loopback).await);
        let (one, two) = (one.unwrap().unwrap(), two.unwrap().unwrap());
        assert!(one.address().unwrap().ip().is_loopback() && one.address() != two.address());
        let on = settings(|cluster| cluster.gossip = "on".to_owned());
        assert!(started(&on, loopback).await.unwrap().is_some());
        let error = started(&on, "0.0.0.0:3100").await.unwrap_err();
        assert!(error.contains("cluster.secret_file"), "{error}");
        let wrong = settings(|cluster| {
            (cluster.secret_file, cluster.gossip_listen) = (secret.clone(), "nowhere".to_owned());
        });
        let error = started(&wrong, loopback).await.unwrap_err();
        assert!(error.contains("cluster.gossip_listen") && error.contains("nowhere"), "{error}");
        for seed in ["node-1", "node-1:", ":3101", "node-1:0", "node-1:x"] {
            let wrong = settings(|cluster| {
                (cluster.secret_file, cluster.seeds) = (secret.clone(), vec![seed.to_owned()]);
            });
            let error = started(&wrong, loopback).await.unwrap_err();
            assert!(error.contains("cluster.seeds") && error.contains(seed), "{error}");
        }
    }

    #[tokio::test]
    async fn two_processes_find_each_other_by_addresses_from_the_bucket_and_exchange_hints() {
        let on = settings(|cluster| cluster.gossip = "on".to_owned());
        let one = started(&on, "127.0.0.1:3100").await.unwrap().unwrap();
        let two = started(&on, "127.0.0.1:3100").await.unwrap().unwrap();
        let (mut news, mut view) = (one.news(), one.membership.watch());
        one.note_addresses(vec![two.address().unwrap()]);
        two.announce_segment(Id(7), 0);
        while one.next_segment(Id(7)).is_none() {
            view.changed().await.unwrap();
        }
        two.announce_catalog(12);
        two.announce_segment(Id(7), 5);
        while (one.catalog(), one.next_segment(Id(7))) != (12, Some(5)) {
            news.changed().await.unwrap();
        }
        assert_eq!((one.gone_for(Id(7)), one.gone_for(Id(8))), (None, None));
        two.leave().await;
        while one.gone_for(Id(7)).is_none() {
            view.changed().await.unwrap();
        }
        assert_eq!(one.next_segment(Id(7)), None);
    }

    #[test]
    fn a_cluster_is_named_by_its_store_or_by_the_option() {
        let mut cluster = Settings::default().cluster;
        let name = |cluster: &Cluster| cluster_name(cluster, "s3://b/p/?region=x&endpoint=y");
        assert_eq!(name(&cluster), "s3://b/p");
        cluster.name = "east".to_owned();
        assert_eq!(name(&cluster), "east");
    }
}
