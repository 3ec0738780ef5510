//! A running node: the socket, the timers and the protocol in one task.
//!
//! The task is the only one that touches the protocol. Other tasks leave what they announce in a slot and
//! read the newest view from a channel, so nobody waits for the network.

use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_runtime::{Env, Task};
use tokio::sync::{Notify, oneshot, watch};

use crate::datagram::{DATAGRAM_BYTES_MAX, Header, Refused, Sealed};
use crate::error::Error;
use crate::gossip::{Gossip, Outgoing, TICK};
use crate::inbox::Inbox;
use crate::key_ring::KeyRing;
use crate::metrics::Metrics;
use crate::network::{DatagramSocket, Network};
use crate::seeds::{BucketSeeds, Seeds};
use crate::state::NodeState;
use crate::view::View;

/// Least time between two pushes of news, and between two views.
pub const PUSH_GAP: Duration = Duration::from_millis(100);
/// How often the file of the secret is read again.
const SECRET_READ_EVERY: Duration = Duration::from_secs(10);
/// How often the log says that datagrams are refused, at most.
const COMPLAINS_EVERY: Duration = Duration::from_secs(60);
/// Pause after an error of the socket.
const RECEIVE_PAUSE: Duration = Duration::from_millis(100);

/// How gossip is set up.
#[derive(Clone)]
pub struct Options {
    /// The name of the cluster: nodes of other clusters are not understood.
    pub cluster: String,
    /// The file of the secret. Without one gossip is limited to loopback.
    pub secret_file: Option<PathBuf>,
    /// The address of the socket.
    pub listen: SocketAddr,
    /// Whether another port may be used if that of `listen` is taken.
    pub may_use_free_port: bool,
    /// The address that peers are told; by default that of the socket.
    pub advertise: Option<SocketAddr>,
    /// What the node says about itself; its gossip address is filled in.
    pub state: NodeState,
    /// Addresses and names of other nodes, with ports.
    pub seeds: Vec<String>,
    /// Addresses from the bucket.
    pub bucket_seeds: BucketSeeds,
}

/// A running node. Dropping it ends gossip without a farewell.
pub struct Membership {
    shared: Arc<Shared>,
    address: SocketAddr,
    metrics: Metrics,
    _tasks: Vec<Task<()>>,
}

struct Shared {
    view: watch::Sender<Arc<View>>,
    news: watch::Sender<u64>,
    wishes: Mutex<Wishes>,
    wake: Notify,
}

/// What other tasks want of the node since it last looked.
#[derive(Default)]
struct Wishes {
    numbers: Option<(u64, u64, bool)>,
    state: Option<NodeState>,
    farewell: Option<oneshot::Sender<()>>,
}

impl Membership {
    /// Opens the socket and starts to gossip.
    pub async fn start(env: &Env, network: Arc<dyn Network>, options: Options) -> Result<Self, Error> {
        let ring = match &options.secret_file {
            Some(path) => KeyRing::read(path, &options.cluster)?,
            None if options.listen.ip().is_loopback() => KeyRing::without_secret(&options.cluster),
            None => return Err(Error::NotLoopback { address: options.listen }),
        };
        let socket = bind(&*network, &options).await?;
        let address = advertised(&*network, &options, &*socket).await?;
        let state = NodeState { gossip_address: address, ..options.state.clone() };
        let gossip = Gossip::new(env.new_id(), &state)?;
        let shared = Arc::new(Shared {
            view: watch::Sender::new(Arc::default()),
            news: watch::Sender::new(0),
            wishes: Mutex::default(),
            wake: Notify::new(),
        });
        let (metrics, ring) = (Metrics::default(), Arc::new(RwLock::new(ring)));
        let seeds = Seeds::start(env, &network, &options.seeds, options.bucket_seeds);
        let node = Node {
            env: env.clone(),
            inbox: Inbox::new(env.monotonic()),
            ring: Arc::clone(&ring),
            metrics: metrics.clone(),
            shared: Arc::clone(&shared),
            state,
            complained: None,
            pushed: None,
            seeds,
            socket,
            gossip,
        };
        let mut tasks = vec![env.spawn("gossip", node.run())];
        if let Some(path) = options.secret_file {
            tasks.push(env.spawn("gossip secret", follow_secret(env.clone(), path, options.cluster, ring)));
        }
        Ok(Self { shared, address, metrics, _tasks: tasks })
    }

    /// The address that peers are told.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is known of the cluster now.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.shared.view.borrow())
    }

    /// Follows the view: at most ten changes a second.
    pub fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.shared.view.subscribe()
    }

    /// Follows announcements of greater numbers by live peers: changes at most ten times a second, after
    /// the view that contains them.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.shared.news.subscribe()
    }

    /// Counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Announces the newest known number of the catalog's log and of the own next WAL segment. Cheap.
    pub fn announce(&self, catalog: u64, wal: u64, is_draining: bool) {
        self.shared.wishes().numbers = Some((catalog, wal, is_draining));
        self.shared.wake.notify_one();
    }

    /// Announces another state; its gossip address is filled in.
    pub fn set_state(&self, state: NodeState) -> Result<(), Error> {
        let state = NodeState { gossip_address: self.address, ..state };
        state.encode()?;
        self.shared.wishes().state = Some(state);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Tells peers that this node stops, and stops gossip.
    pub async fn leave(&self) {
        let (said, farewell) = oneshot::channel();
        self.shared.wishes().farewell = Some(said);
        self.shared.wake.notify_one();
        // An error means that the task has ended, which is as good.
        let _ = farewell.await;
    }
}

impl Shared {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn bind(network: &dyn Network, options: &Options) -> Result<Arc<dyn DatagramSocket>, Error> {
    let address = options.listen;
    match network.bind(address).await {
        Err(error) if options.may_use_free_port && error.kind() == std::io::ErrorKind::AddrInUse => {
            let free = SocketAddr::new(address.ip(), 0);
            network.bind(free).await.map_err(|reason| Error::Bind { address: free, reason })
        }
        bound => bound.map_err(|reason| Error::Bind { address, reason }),
    }
}

async fn advertised(
    network: &dyn Network,
    options: &Options,
    socket: &dyn DatagramSocket,
) -> Result<SocketAddr, Error> {
    let bound = socket.address().map_err(|reason| Error::Bind { address: options.listen, reason })?;
    let mut address = options.advertise.unwrap_or(bound);
    if address.port() == 0 {
        address.set_port(bound.port());
    }
    if address.ip().is_unspecified() {
        let outgoing: Option<IpAddr> = network.outgoing_ip(address.is_ipv6()).await.ok();
        let reachable = outgoing.filter(|ip| !ip.is_unspecified());
        address.set_ip(reachable.ok_or_else(|| Error::Advertise { value: address.to_string() })?);
    }
    match address.ip().is_multicast() {
        true => Err(Error::Advertise { value: address.to_string() }),
        false => Ok(address),
    }
}

/// Reads the secret again and again. A file that cannot be used changes nothing.
async fn follow_secret(env: Env, path: PathBuf, cluster: String, ring: Arc<RwLock<KeyRing>>) {
    let mut is_failing = false;
    loop {
        env.sleep(SECRET_READ_EVERY).await;
        let (from, name) = (path.clone(), cluster.clone());
        match env.run_blocking(move || KeyRing::read(&from, &name)).await {
            Ok(read) => {
                let mut current = ring.write().unwrap_or_else(PoisonError::into_inner);
                if !read.is_same(&current) {
                    tracing::info!(path = %path.display(), "the secret of the cluster was read again");
                    *current = read;
                }
                is_failing = false;
            }
            Err(error) if !is_failing => {
                tracing::error!(%error, "the secret of the cluster stays as it was");
                is_failing = true;
            }
            Err(_) => {}
        }
    }
}

/// The state of the task.
struct Node {
    env: Env,
    gossip: Gossip,
    inbox: Inbox,
    ring: Arc<RwLock<KeyRing>>,
    metrics: Metrics,
    shared: Arc<Shared>,
    state: NodeState,
    /// When the log last said that datagrams are refused.
    complained: Option<Duration>,
    /// When news were last pushed.
    pushed: Option<Duration>,
    seeds: Seeds,
    socket: Arc<dyn DatagramSocket>,
}

/// Waits until a push is due; for ever if none is.
async fn until_due(push: &mut Option<BoxFuture<'static, ()>>) {
    match push {
        Some(due) => due.await,
        None => pending().await,
    }
}

enum Event {
    Received(std::io::Result<(usize, SocketAddr)>),
    Tick,
    Push,
    Wish,
}

impl Node {
    async fn run(mut self) {
        let socket = Arc::clone(&self.socket);
        let shared = Arc::clone(&self.shared);
        // One byte more than a datagram may have, to notice longer ones.
        let mut buffer = [0; DATAGRAM_BYTES_MAX + 1];
        let mut tick: BoxFuture<'static, ()> = Box::pin(std::future::ready(()));
        let mut push: Option<BoxFuture<'static, ()>> = None;
        loop {
            if push.is_none() && (self.gossip.has_news() || self.gossip.has_changed()) {
                let since = self.pushed.map(|pushed| self.env.monotonic().saturating_sub(pushed));
                push = Some(self.sleep(PUSH_GAP.saturating_sub(since.unwrap_or(PUSH_GAP))));
            }
            let event = tokio::select! {
                received = socket.receive(&mut buffer) => Event::Received(received),
                () = &mut tick => Event::Tick,
                () = until_due(&mut push) => Event::Push,
                () = shared.wake.notified() => Event::Wish,
            };
            match event {
                Event::Received(Ok((len, from))) => self.receive(&buffer[..len], from),
                Event::Received(Err(error)) => {
                    tracing::debug!(%error, "gossip could not receive");
                    self.env.sleep(RECEIVE_PAUSE).await;
                }
                Event::Tick => {
                    tick = self.sleep(TICK * 9 / 10 + TICK * self.env.random_below(200) as u32 / 1_000);
                    self.tick();
                }
                Event::Push => {
                    push = None;
                    self.push();
                }
                Event::Wish => {
                    if let Some(said) = self.wish() {
                        let _ = said.send(());
                        return;
                    }
                }
            }
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let env = self.env.clone();
        Box::pin(async move { env.sleep(duration).await })
    }

    fn tick(&mut self) {
        if self.gossip.must_rename() {
            self.gossip.rename(self.env.new_id());
        }
        let (now, seeds, env) = (self.env.monotonic(), self.seeds.now(), self.env.clone());
        let outgoing = self.gossip.tick(now, &seeds, &mut |below| env.random_below(below));
        self.send(outgoing);
    }

    fn push(&mut self) {
        let (now, env) = (self.env.monotonic(), self.env.clone());
        self.pushed = Some(now);
        let outgoing = self.gossip.push(now, &mut |below| env.random_below(below));
        self.send(outgoing);
        if self.gossip.has_changed() {
            let view = self.gossip.view(now);
            self.metrics.note_view(&view);
            self.shared.view.send_replace(Arc::new(view));
        }
        let news = self.gossip.news();
        self.shared.news.send_if_modified(|known| std::mem::replace(known, news) != news);
    }

    /// Does what other tasks want. Returns whom to tell that the farewell was said.
    fn wish(&mut self) -> Option<oneshot::Sender<()>> {
        let Wishes { numbers, state, farewell } = std::mem::take(&mut *self.shared.wishes());
        if let Some((catalog, wal, is_draining)) = numbers {
            self.gossip.announce(catalog, wal, is_draining);
        }
        if let Some(state) = state {
            // Its bytes were checked when it was left here.
            if self.gossip.set_state(&state).is_ok() {
                self.state = state;
            }
        }
        let said = farewell?;
        let env = self.env.clone();
        let outgoing = self.gossip.leave(&mut |below| env.random_below(below));
        self.send(outgoing);
        Some(said)
    }

    fn receive(&mut self, datagram: &[u8], from: SocketAddr) {
        self.metrics.note_received(datagram.len());
        let clocks = (self.env.now_ns() / 1_000_000, self.env.monotonic());
        let opened = {
            let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
            self.inbox.open(&ring, self.gossip.id(), clocks, datagram)
        };
        let before = self.gossip.counts();
        let taken = opened
            .and_then(|(header, opened)| self.gossip.take(clocks.1, (header.sender, from), opened.payload()));
        self.metrics.note_counts(before, self.gossip.counts());
        match taken {
            Ok(answer) => self.send(answer),
            Err(reason) => self.complain(reason, from),
        }
    }

    fn complain(&mut self, reason: Refused, from: SocketAddr) {
        self.metrics.note_refused(reason);
        let why = match reason {
            // A seed may be this node, or a datagram may have been doubled on its way.
            Refused::Own | Refused::Replay => return,
            Refused::Key => "it is not sealed with the secret of this cluster (cluster.secret_file)",
            Refused::Clock => "the clocks of the two nodes are more than 30 s apart, or it was recorded",
            Refused::Version => "its sender runs another version, or is no node",
            Refused::Rate | Refused::ReplayFull => "too many datagrams arrive",
            Refused::Length | Refused::Malformed => "it is not a datagram of gossip",
        };
        let now = self.env.monotonic();
        if self.complained.is_none_or(|at| now.saturating_sub(at) >= COMPLAINS_EVERY) {
            self.complained = Some(now);
            let reason = reason.as_str();
            tracing::warn!(%from, reason, "a gossip datagram was refused: {why}; further ones are counted");
        }
    }

    fn send(&mut self, outgoing: Vec<Outgoing>) {
        let (sender, sent_ms) = (self.gossip.id(), self.env.now_ns() / 1_000_000);
        for Outgoing { to, payload } in outgoing {
            let header = Header { sender, sent_ms, nonce: self.env.secret() };
            let sealed = {
                let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
                Sealed::new(&ring, header, &payload)
            };
            let sent = self.socket.send(sealed.as_bytes(), to);
            if let Err(error) = &sent {
                tracing::debug!(%to, %error, "gossip could not send");
            }
            self.metrics.note_sent(sealed.as_bytes().len(), sent.is_ok());
        }
    }
}
